//! Scales of numbers, linear or logarithmic, and where their ticks stand. Time has its own scale in `time_axis`.

/// Maps numbers to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    /// The pixels of `from` and `to`; the axis may run either way.
    pixels: (f64, f64),
    logarithmic: bool,
}

impl Scale {
    /// A linear scale. An empty range is widened to both sides.
    pub fn linear(from: f64, to: f64, pixels: (f64, f64)) -> Scale {
        let (from, to) = if to > from { (from, to) } else { (from - 0.5, from + 0.5) };
        Scale { from, to, pixels, logarithmic: false }
    }

    /// A linear scale from 0 to a little above the greatest of the values, which leaves room for labels.
    pub fn from_zero(values: impl IntoIterator<Item = f64>, pixels: (f64, f64)) -> Scale {
        let greatest = values.into_iter().fold(0.0, f64::max);
        Scale::linear(0.0, if greatest > 0.0 { greatest * 1.08 } else { 1.0 }, pixels)
    }

    /// Logarithmic where the range spans so much that the small end would be lost, else linear.
    pub fn fitting(from: f64, to: f64, pixels: (f64, f64)) -> Scale {
        const DECADES_WORTH_A_LOGARITHM: f64 = 50.0;
        let scale = Scale::linear(from, to, pixels);
        Scale { logarithmic: from > 0.0 && to / from >= DECADES_WORTH_A_LOGARITHM, ..scale }
    }

    pub fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// The pixel of a value; values outside the range lie outside the axis.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// At most about `most` ticks at round values, with their labels.
    pub fn ticks(&self, most: u32) -> Vec<(f64, String)> {
        if self.logarithmic { self.decades(most) } else { self.round_steps(most) }
    }

    fn round_steps(&self, most: u32) -> Vec<(f64, String)> {
        let least_step = (self.to - self.from) / f64::from(most.max(1));
        let power = 10_f64.powf(least_step.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= least_step * 0.999);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.from / step - 1e-9).ceil();
        let values = (0..=most).map(|k| (first + f64::from(k)) * step);
        let within = values.take_while(|value| *value <= self.to + step * 1e-9);
        within.map(|value| (value, number(value, step))).collect()
    }

    /// 1, 2 and 5 of each power of ten; where that is too much, the powers alone.
    fn decades(&self, most: u32) -> Vec<(f64, String)> {
        let all = self.of_decades(&[1.0, 2.0, 5.0]);
        if all.len() > most as usize * 2 { self.of_decades(&[1.0]) } else { all }
    }

    fn of_decades(&self, factors: &[f64]) -> Vec<(f64, String)> {
        let mut ticks = Vec::new();
        let mut power = 10_f64.powf(self.from.log10().floor());
        while power <= self.to {
            let values = factors.iter().map(|factor| factor * power);
            let within = values.filter(|value| (self.from * 0.999..=self.to * 1.001).contains(value));
            ticks.extend(within.map(|value| (value, number(value, power))));
            power *= 10.0;
        }
        ticks
    }
}

/// A number with as many decimals as multiples of `step` need, thousands apart.
pub(super) fn number(value: f64, step: f64) -> String {
    let decimals = (0..9).find(|decimals| (step * 10_f64.powi(*decimals)).fract() < 1e-6).unwrap_or(9);
    let text = format!("{:.*}", usize::try_from(decimals).unwrap_or(0), value.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) { "−" } else { "" };
    fraction.map_or_else(|| format!("{sign}{grouped}"), |fraction| format!("{sign}{grouped}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, most: u32) -> String {
        scale.ticks(most).into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_stand_at_round_values() {
        for (from, to, expected) in [
            (0.0, 169.56, "0 50 100 150"),
            (1.0, 38.0, "10 20 30"),
            (0.0, 1.0, "0.0 0.2 0.4 0.6 0.8 1.0"),
            (0.0, 18_738.0, "0 5,000 10,000 15,000"),
            (-0.02, 0.05, "−0.02 0.00 0.02 0.04"),
            (5.0, 5.0, "4.6 4.8 5.0 5.2 5.4"),
        ] {
            assert_eq!(labels(Scale::linear(from, to, (0.0, 100.0)), 5), expected);
        }
        assert_eq!(labels(Scale::fitting(0.5, 100.0, (0.0, 100.0)), 5), "0.5 1 2 5 10 20 50 100");
    }

    #[test]
    fn scales_meet_their_ends() {
        for scale in [Scale::linear(2.0, 4.0, (10.0, 0.0)), Scale::fitting(1.0, 1_000.0, (10.0, 0.0))] {
            let (low, high) = if scale.is_logarithmic() { (1.0, 1_000.0) } else { (2.0, 4.0) };
            assert!((scale.at(low) - 10.0).abs() < 1e-9 && scale.at(high).abs() < 1e-9);
        }
    }
}
