//! Curves over steps, drawn as SVG.

use super::axis::{Axis, is_drawable, number_text};
use super::memory::COLOURS;
use askama::Template;
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 612.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 244.0;
/// A curve has at most this many points.
const MOST_POINTS: usize = 1000;
/// A curve of more points than this is drawn faint, with the means of this many stretches over it.
const MOST_UNSMOOTHED: usize = 200;
/// At most this many points of a curve show their values when the pointer is over them.
const MOST_DOTS: usize = 80;

/// A chart of one or more curves over the step.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What the chart shows.
    pub title: String,
    /// The quantity and unit of the vertical axis; may be empty.
    pub y_label: String,
    /// Draw the vertical axis logarithmically, without what is not positive.
    pub log_y: bool,
    /// The curves.
    pub series: Vec<Series>,
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Step and value, in the order of the steps. A value that is not finite leaves a gap.
    pub points: Vec<(f64, f64)>,
}

/// At most `limit` (four or more) of the points, in order: the first, the last, and the smallest
/// and the largest of each stretch between, so that no spike is lost.
fn thinned(points: &[(f64, f64)], limit: usize) -> Vec<(f64, f64)> {
    let limit = limit.max(4);
    let [first, between @ .., last] = points else {
        return points.to_vec();
    };
    if points.len() <= limit {
        return points.to_vec();
    }
    let stretch = between.len().div_ceil((limit - 2) / 2);
    let mut kept = vec![*first];
    for points in between.chunks(stretch) {
        let finite = || (0..points.len()).filter(|&place| points[place].1.is_finite());
        let by_value = |&a: &usize, &b: &usize| points[a].1.total_cmp(&points[b].1);
        let smallest = finite().min_by(by_value).unwrap_or(0);
        let largest = finite().max_by(by_value).unwrap_or(0);
        kept.push(points[smallest.min(largest)]);
        if smallest != largest {
            kept.push(points[smallest.max(largest)]);
        }
    }
    kept.push(*last);
    kept
}

/// The mean step and value of each of at most `limit` stretches; a stretch without finite values
/// has the mean NaN.
fn averaged(points: &[(f64, f64)], limit: usize) -> Vec<(f64, f64)> {
    let stretches = points.chunks(points.len().div_ceil(limit).max(1));
    stretches
        .map(|points| {
            let finite = points.iter().filter(|point| point.1.is_finite());
            let (x, y, count) =
                finite.fold((0.0, 0.0, 0.0), |(x, y, count), point| (x + point.0, y + point.1, count + 1.0));
            (x / count, y / count)
        })
        .collect()
}

/// A chart laid out in the coordinates of its SVG.
#[derive(Template)]
#[template(path = "chart.svg")]
pub(super) struct Drawing<'a> {
    chart: &'a Chart,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    curves: Vec<Curve<'a>>,
}

struct Tick {
    at: f64,
    label: String,
}

struct Curve<'a> {
    name: &'a str,
    colour: &'static str,
    latest: String,
    path: String,
    /// The path of the means; empty where the curve is short enough to read as it is.
    mean: String,
    dots: Vec<Dot>,
}

struct Dot {
    x: f64,
    y: f64,
    text: String,
}

impl<'a> Drawing<'a> {
    pub fn new(chart: &'a Chart) -> Self {
        let drawable = |point: &(f64, f64)| is_drawable(point.0, false) && is_drawable(point.1, chart.log_y);
        let points = chart.series.iter().flat_map(|series| &series.points);
        let points = points.filter(|point| drawable(point));
        let Some([x_low, x_high, y_low, y_high]) = points.fold(None, enclose) else {
            let curves = chart.series.iter().zip(COLOURS.into_iter().cycle());
            return Self {
                chart,
                x_ticks: Vec::new(),
                y_ticks: Vec::new(),
                curves: curves.map(|(series, colour)| Curve::empty(series, colour)).collect(),
            };
        };
        let x = Axis::tight(x_low, x_high);
        let y = match chart.log_y {
            true => Axis::logarithmic(y_low, y_high),
            false => Axis::linear(y_low, y_high),
        };
        let place = |(step, value): (f64, f64)| {
            let point = (step, value);
            drawable(&point).then(|| (across(x.share(step)), up(y.share(value))))
        };
        let curves = chart.series.iter().zip(COLOURS.into_iter().cycle());
        Self {
            chart,
            curves: curves.map(|(series, colour)| Curve::new(series, colour, place)).collect(),
            x_ticks: ticks(&x, across),
            y_ticks: ticks(&y, up),
        }
    }
}

fn enclose(found: Option<[f64; 4]>, &(x, y): &(f64, f64)) -> Option<[f64; 4]> {
    let [x_low, x_high, y_low, y_high] = found.unwrap_or([x, x, y, y]);
    Some([x_low.min(x), x_high.max(x), y_low.min(y), y_high.max(y)])
}

fn across(share: f64) -> f64 {
    LEFT + share * (RIGHT - LEFT)
}

fn up(share: f64) -> f64 {
    BOTTOM - share * (BOTTOM - TOP)
}

fn ticks(axis: &Axis, place: impl Fn(f64) -> f64) -> Vec<Tick> {
    let ticks = axis.ticks.iter();
    ticks.map(|&value| Tick { at: place(axis.share(value)), label: number_text(value, 6) }).collect()
}

impl<'a> Curve<'a> {
    fn empty(series: &'a Series, colour: &'static str) -> Self {
        let latest = series.points.last();
        Self {
            name: &series.name,
            colour,
            latest: latest.map_or(String::new(), |(_, value)| number_text(*value, 4)),
            path: String::new(),
            mean: String::new(),
            dots: Vec::new(),
        }
    }

    fn new(series: &'a Series, colour: &'static str, place: impl Fn((f64, f64)) -> Option<(f64, f64)>) -> Self {
        let mut curve = Self::empty(series, colour);
        curve.path = path(thinned(&series.points, MOST_POINTS), &place);
        if series.points.len() > MOST_UNSMOOTHED {
            curve.mean = path(averaged(&series.points, MOST_UNSMOOTHED), &place);
        }
        let dots = thinned(&series.points, MOST_DOTS).into_iter();
        let dots = dots.filter_map(|point| Some((place(point)?, point)));
        curve.dots = dots
            .map(|((x, y), (step, value))| Dot { x, y, text: format!("step {step}: {}", number_text(value, 5)) })
            .collect();
        curve
    }
}

/// The commands of an SVG path through the points; what cannot be placed leaves a gap.
fn path(points: Vec<(f64, f64)>, place: impl Fn((f64, f64)) -> Option<(f64, f64)>) -> String {
    let (mut path, mut command) = (String::new(), 'M');
    for point in points {
        command = match place(point) {
            Some((x, y)) => {
                let _ = write!(path, "{command}{x:.1} {y:.1}");
                'L'
            }
            None => 'M',
        };
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, log_y: bool) -> Chart {
        let name = "train".to_string();
        Chart { title: "Loss".to_string(), y_label: "L1".to_string(), log_y, series: vec![Series { name, points }] }
    }

    #[test]
    fn thinning_keeps_ends_and_spikes() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|x| (x as f64, (x % 7) as f64)).collect();
        points[54_321].1 = 99.0;
        points[65_432].1 = -99.0;
        let kept = thinned(&points, MOST_POINTS);
        assert!((500..=MOST_POINTS).contains(&kept.len()), "{}", kept.len());
        assert!(kept.contains(&(54_321.0, 99.0)) && kept.contains(&(65_432.0, -99.0)));
        assert_eq!((kept[0], *kept.last().unwrap()), (points[0], points[99_999]));
        assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn thinning_leaves_short_series_alone_and_keeps_a_gap() {
        let points: Vec<(f64, f64)> = (0..1000).map(|x| (x as f64, 0.5)).collect();
        assert_eq!(thinned(&points, MOST_POINTS), points);
        assert_eq!(thinned(&points[..1], MOST_POINTS), points[..1]);
        assert_eq!(thinned(&[], MOST_POINTS), []);
        let gap: Vec<(f64, f64)> = (0..5000).map(|x| (x as f64, f64::NAN)).collect();
        assert!(thinned(&gap, MOST_POINTS)[100].1.is_nan());
    }

    #[test]
    fn a_curve_runs_from_corner_to_corner() {
        let chart = chart(vec![(0.0, 0.0), (100.0, 1.0)], false);
        let drawing = Drawing::new(&chart);
        assert_eq!(drawing.curves[0].path, "M64.0 244.0L612.0 12.0");
        assert_eq!(drawing.curves[0].latest, "1");
        assert!(drawing.curves[0].mean.is_empty());
        assert!(drawing.render().unwrap().contains("step 100: 1"));
    }

    #[test]
    fn gaps_split_the_curve_and_a_log_axis_skips_what_is_not_positive() {
        let points = vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 0.0), (3.0, 10.0)];
        let linear = chart(points.clone(), false);
        assert_eq!(Drawing::new(&linear).curves[0].path.matches('M').count(), 2);
        let logarithmic = chart(points, true);
        let path = Drawing::new(&logarithmic).curves[0].path.clone();
        assert_eq!(path, "M64.0 244.0M612.0 12.0");
    }

    #[test]
    fn a_long_noisy_curve_is_faint_under_its_mean() {
        let noisy = (0..1000).map(|x| (x as f64, f64::from(x % 2)));
        let chart = chart(noisy.collect(), false);
        let mut drawing = Drawing::new(&chart);
        let mean = drawing.curves[0].mean.clone();
        assert_eq!(mean.matches(['M', 'L']).count(), MOST_UNSMOOTHED);
        // Stretches of five hold two or three ones: means of 0.4 and 0.6.
        assert!(mean.contains(" 151.2") && mean.contains(" 104.8") && !mean.contains(" 244.0"));
        assert!(drawing.render().unwrap().contains("class=\"curve faint\""));
        drawing.curves[0].mean.clear();
        assert!(!drawing.render().unwrap().contains("faint"));
    }

    #[test]
    fn means_skip_what_is_not_finite() {
        let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0), (3.0, f64::INFINITY)];
        assert_eq!(averaged(&points, 1), [(1.0, 2.0)]);
        assert!(averaged(&points, 2)[1].1 == 3.0 && averaged(&points, 4)[1].1.is_nan());
        assert!(averaged(&[], 4).is_empty());
    }

    #[test]
    fn nothing_to_draw_says_so() {
        for points in [vec![], vec![(0.0, f64::INFINITY)]] {
            let chart = chart(points, false);
            assert!(Drawing::new(&chart).render().unwrap().contains("no data"));
        }
    }
}
