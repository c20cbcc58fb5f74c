//! What the axes of an array of fields are.

use crate::error::DataError;
use crate::formats::Array;
use crate::volumes::zeros;

/// Trajectories, time, channels, height, width: the order in which a sequence has them.
const LETTERS: [char; 5] = ['n', 't', 'c', 'h', 'w'];

/// What the axes of an array are, in their order: `n` for trajectories, `t` for time, `c` for channels, `h` and `w`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axes<'a>(&'a str);

/// Fields in the order of a sequence.
pub(crate) struct Arranged {
    pub(crate) data: Vec<f32>,
    pub(crate) shape: [usize; 4],
    /// Frames of each trajectory, where there is an axis of them.
    pub(crate) trajectory: Option<usize>,
}

impl<'a> Axes<'a> {
    /// Axes by their letters, each once, `h` and `w` among them; none of what is no such text.
    pub(crate) fn of(letters: &'a str) -> Option<Self> {
        let once = LETTERS.iter().all(|letter| letters.matches(*letter).count() <= 1);
        let known = letters.chars().all(|letter| LETTERS.contains(&letter));
        (once && known && letters.contains('h') && letters.contains('w')).then_some(Self(letters))
    }

    /// The usual ones of an array of that many axes, with the letters of the most.
    pub(crate) fn usual(axes: usize) -> Self {
        Self(if axes == 3 { "thw" } else { "tchw" })
    }

    /// The fields of an array as `[frames, channels, height, width]`, the frames of each trajectory together.
    ///
    /// # Errors
    /// If the array has other than so many axes, or there is no memory.
    pub(crate) fn arrange(self, array: Array<f32>) -> Result<Arranged, DataError> {
        let Array { shape, values } = array;
        if shape.len() != self.0.len() {
            let names = self.0.chars().map(name).collect::<Vec<_>>().join(", ");
            let expected = format!("a shape of {} axes [{names}]", self.0.len());
            let remedy = "Say in `axes` what they are, such as thwc, or save [time, channels, height, width].";
            return Err(DataError::malformed(expected, format!("{shape:?}"), remedy));
        }
        let at = LETTERS.map(|letter| self.0.find(letter));
        let stride = |axis: usize| shape[axis + 1..].iter().product::<usize>();
        let (lengths, strides) = (at.map(|at| at.map_or(1, |axis| shape[axis])), at.map(|at| at.map_or(0, stride)));
        let [trajectories, time, channels, height, width] = lengths;
        let arranged = [trajectories * time, channels, height, width];
        let data = if at.iter().flatten().is_sorted() { values } else { gather(&values, lengths, strides)? };
        Ok(Arranged { data, shape: arranged, trajectory: at[0].map(|_| time) })
    }
}

fn name(letter: char) -> &'static str {
    ["trajectories", "time", "channels", "height", "width"]
        [LETTERS.iter().position(|known| *known == letter).unwrap_or(0)]
}

/// The values with the last axis fastest.
fn gather(values: &[f32], lengths: [usize; 5], strides: [usize; 5]) -> Result<Vec<f32>, DataError> {
    let mut data = zeros(&lengths)?;
    let mut places = [0; 5];
    for value in &mut data {
        *value = values[places.iter().zip(strides).map(|(place, stride)| place * stride).sum::<usize>()];
        for axis in (0..5).rev() {
            places[axis] += 1;
            if places[axis] < lengths[axis] {
                break;
            }
            places[axis] = 0;
        }
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_come_in_any_order() {
        // An array whose values name their places: trajectory, time, channel, height, width.
        let lengths = [('n', 2), ('t', 3), ('c', 2), ('h', 4), ('w', 5)];
        for letters in ["ntchw", "hwtnc", "thw", "wht", "nthwc", "chw"] {
            let shape: Vec<usize> =
                letters.chars().map(|letter| lengths.iter().find(|known| known.0 == letter).unwrap().1).collect();
            let values = (0..shape.iter().product()).map(|index: usize| {
                let mut rest = index;
                let digits = letters.chars().rev().zip(shape.iter().rev()).map(|(letter, length)| {
                    let digit = rest % length;
                    rest /= length;
                    digit * 10_usize.pow(4 - LETTERS.iter().position(|known| *known == letter).unwrap() as u32)
                });
                digits.sum::<usize>() as f32
            });
            let array = Array { values: values.collect(), shape: shape.clone() };
            let Arranged { data, shape, trajectory } = Axes::of(letters).unwrap().arrange(array).unwrap();
            let has = |letter: char, length: usize| if letters.contains(letter) { length } else { 1 };
            assert_eq!(shape, [has('n', 2) * has('t', 3), has('c', 2), 4, 5], "{letters}");
            assert_eq!(trajectory, letters.contains('n').then_some(3), "{letters}");
            assert!(data.is_sorted() && data.windows(2).all(|pair| pair[0] < pair[1]), "{letters}: {data:?}");
        }
    }

    #[test]
    fn what_is_no_list_of_axes_is_rejected() {
        for letters in ["", "tch", "tchww", "xyz", "thw "] {
            assert_eq!(Axes::of(letters), None, "{letters}");
        }
        let array = Array { values: vec![0.0; 6], shape: vec![2, 3] };
        let error = Axes::usual(2).arrange(array).err().unwrap().to_string();
        assert!(error.contains("4 axes [time, channels, height, width]") && error.contains("[2, 3]"), "{error}");
    }
}
