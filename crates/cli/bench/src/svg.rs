//! Curves as a picture: axes that double, a line for each series, its name at its end. Text and lines have colours that can be read on
//! light and on dark.

use std::fmt::Write as _;

/// A line.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 860.0;
const PANEL_HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 225.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 45.0;
/// Fewer lines than this do not tell how high something is.
const TICKS_MIN: usize = 3;
/// Distance between the names of lines.
const LINE_HEIGHT: f64 = 15.0;
/// Seen on white and on black.
const COLOURS: [&str; 6] = ["#2f81f7", "#d1840f", "#3fa35c", "#c4528a", "#8a63d2", "#7d8590"];
const TEXT: &str = "#7d8590";

/// Draws panels one below the other over the same sizes.
pub(crate) fn draw(title: &str, axis: &str, panels: &[(&str, Vec<Series>)]) -> String {
    let panels: Vec<_> =
        panels.iter().filter(|(_, series)| series.iter().any(|line| !line.points.is_empty())).collect();
    #[allow(clippy::cast_precision_loss, reason = "a handful")]
    let height = TOP + panels.len() as f64 * PANEL_HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"{TEXT}\">\n<title>{0}</title>\n<text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{0}</text>\n",
        escape(title)
    );
    for (number, (what, series)) in panels.iter().enumerate() {
        #[allow(clippy::cast_precision_loss, reason = "a handful")]
        let top = TOP + number as f64 * PANEL_HEIGHT;
        panel(&mut svg, top, what, axis, series);
    }
    svg.push_str("</svg>\n");
    svg
}

/// From values to places, by orders of magnitude.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let (low, high) = positive
            .fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| (low.min(value), high.max(value)));
        let low = if low > high { 1.0 } else { low };
        // A little room on both sides, and never a scale of one value.
        Self { low: low / 1.2, high: (high * 1.2).max(low * 2.0), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    /// Round values within: 1, 2 and 5 times powers of ten, and some between where those are too few to read a height by.
    fn ticks(&self) -> Vec<f64> {
        let few = self.round(&[1.0, 2.0, 5.0]);
        if few.len() < TICKS_MIN { self.round(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) } else { few }
    }

    fn round(&self, steps: &[f64]) -> Vec<f64> {
        let mut ticks = Vec::new();
        let mut power = 10_f64.powf(self.low.log10().floor());
        while power <= self.high {
            let within = |tick: &f64| (self.low..=self.high).contains(tick);
            ticks.extend(steps.iter().map(|step| step * power).filter(within));
            power *= 10.0;
        }
        ticks
    }
}

fn panel(svg: &mut String, top: f64, what: &str, axis: &str, series: &[Series]) {
    let bottom = top + PANEL_HEIGHT - BOTTOM;
    let all = || series.iter().flat_map(|line| line.points.iter());
    let x = Scale::new(all().map(|point| point.0), LEFT, WIDTH - RIGHT);
    let y = Scale::new(all().map(|point| point.1), bottom, top + 20.0);
    let mut put = |text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(svg, "{text}");
    };
    put(format!("<text x=\"{LEFT}\" y=\"{:.0}\" font-weight=\"600\">{}</text>", top + 8.0, escape(what)));
    for tick in y.ticks() {
        let at = y.place(tick);
        put(format!(
            "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"{TEXT}\" stroke-opacity=\".25\"/>",
            WIDTH - RIGHT
        ));
        put(format!(
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            number(tick)
        ));
    }
    let mut sizes: Vec<f64> = all().map(|point| point.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    for size in sizes {
        let at = x.place(size);
        put(format!(
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom:.0}\" y2=\"{:.0}\" stroke=\"{TEXT}\"/>",
            bottom + 5.0
        ));
        put(format!(
            "<text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            number(size)
        ));
    }
    put(format!(
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
        WIDTH - RIGHT,
        bottom + 34.0,
        escape(axis)
    ));
    for (at, line) in series.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let places: Vec<(f64, f64)> =
            line.points.iter().map(|point| (x.place(point.0), y.place(point.1))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        put(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        ));
        for (x, y) in &places {
            put(format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"));
        }
    }
    for (at, place) in
        apart(series.iter().map(|line| line.points.last().map_or(bottom, |point| y.place(point.1))).collect())
            .iter()
            .enumerate()
    {
        let (colour, line) = (COLOURS[at % COLOURS.len()], &series[at]);
        let last = line.points.last().map_or(0.0, |point| point.1);
        put(format!(
            "<text x=\"{:.0}\" y=\"{:.1}\" fill=\"{colour}\">{} {}</text>",
            WIDTH - RIGHT + 12.0,
            place + 4.0,
            escape(&line.name),
            number(last)
        ));
    }
}

/// Moves places down until none is too near to the one above it.
fn apart(places: Vec<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut moved = places;
    let mut above = f64::MIN;
    for at in order {
        moved[at] = moved[at].max(above + LINE_HEIGHT);
        above = moved[at];
    }
    moved
}

fn number(value: f64) -> String {
    if value >= 10.0 {
        let digits = format!("{value:.0}");
        let mut text = String::new();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        text
    } else if value >= 1.0 {
        format!("{value:.1}").trim_end_matches(".0").to_owned()
    } else {
        format!("{value:.2}")
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        assert_eq!(
            [0.25, 1.0, 2.5, 10.0, 999.4, 1_000.0, 1_234_567.0].map(number),
            ["0.25", "1", "2.5", "10", "999", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn names_keep_their_distance_and_their_order() {
        assert_eq!(apart(vec![10.0, 0.0, 12.0]), [15.0, 0.0, 30.0]);
    }

    #[test]
    fn a_scale_holds_what_it_was_made_for() {
        let scale = Scale::new([100.0, 5_000.0].into_iter(), 0.0, 100.0);
        assert!(scale.place(100.0) > 0.0 && scale.place(5_000.0) < 100.0);
        assert_eq!(scale.ticks(), [100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0]);
        let narrow = Scale::new([700.0, 1_400.0].into_iter(), 0.0, 100.0);
        assert_eq!(narrow.ticks(), [600.0, 700.0, 800.0, 1_000.0, 1_500.0]);
        assert!(Scale::new([7.0].into_iter(), 0.0, 1.0).place(7.0).is_finite());
        assert!(Scale::new([].into_iter(), 0.0, 1.0).place(0.0).is_finite());
    }

    #[test]
    fn a_picture_is_closed_and_has_every_line() {
        let lines = vec![Series { name: "a < b".into(), points: vec![(100.0, 3.0), (200.0, 6.0)] }];
        let svg = draw("t", "nodes", &[("a second", lines)]);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (1, 2));
        assert!(svg.contains("a &lt; b 6"), "{svg}");
    }
}
