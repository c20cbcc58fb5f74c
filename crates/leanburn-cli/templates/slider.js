// Shows one picture at a time, the last one first; without scripts all of them are shown.
const box = document.getElementById("pictures");
const figures = [...box.querySelectorAll("figure")];
const label = document.createElement("label");
const slider = document.createElement("input");
slider.type = "range";
slider.min = 0;
slider.max = slider.value = figures.length - 1;
slider.setAttribute("aria-label", "Picture");
label.append("first", slider, "last");
box.prepend(label);
slider.oninput = () => figures.forEach((figure, place) => { figure.hidden = place != slider.value; });
slider.oninput();
