//! Prometheus' text form: families of samples, written one by one.

use std::fmt::Write as _;

use stepwell_engine::store::{BOUNDS_US, Counted};

/// A text under way.
#[derive(Default)]
pub(super) struct Exposition(String);

impl Exposition {
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help, [(String::new(), value)]);
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help, [(String::new(), value)]);
    }

    /// Samples of one name, each with its labels as [`labels`] writes them.
    pub(super) fn family(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, u64)>,
    ) {
        self.head(name, kind, help);
        for (labels, value) in samples {
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }

    /// Durations, in seconds.
    pub(super) fn histogram(&mut self, name: &str, help: &str, counted: &Counted) {
        self.head(name, "histogram", help);
        let mut sum = 0;
        for (bound_us, n) in BOUNDS_US.iter().zip(&counted.buckets) {
            sum += n;
            let _ = writeln!(self.0, "{name}_bucket{{le=\"{}\"}} {sum}", *bound_us as f64 / 1e6);
        }
        let all: u64 = counted.buckets.iter().sum();
        let _ = writeln!(self.0, "{name}_bucket{{le=\"+Inf\"}} {all}");
        let _ = writeln!(self.0, "{name}_sum {}\n{name}_count {all}", counted.sum_us as f64 / 1e6);
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
}

/// Labels of a sample: `{name="value",..}`.
pub(super) fn labels(labels: &[(&str, &str)]) -> String {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", labels.join(","))
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_written_as_prometheus_reads_it() {
        let mut text = Exposition::default();
        let runs = [(labels(&[("workflow", "a\"b\\c\nd")]), 3)];
        text.family("runs", "gauge", "Runs.", runs);
        let mut counted = Counted { buckets: [0; BOUNDS_US.len() + 1], sum_us: 1_500_000 };
        counted.buckets[0] = 2;
        counted.buckets[BOUNDS_US.len()] = 1;
        text.histogram("took_seconds", "Time.", &counted);
        let text = text.into_text();
        assert!(text.contains(r#"runs{workflow="a\"b\\c\nd"} 3"#), "{text}");
        assert!(text.contains("took_seconds_bucket{le=\"0.00005\"} 2\n"), "{text}");
        assert!(text.contains("took_seconds_bucket{le=\"30\"} 2\n"), "{text}");
        assert!(
            text.ends_with("took_seconds_bucket{le=\"+Inf\"} 3\ntook_seconds_sum 1.5\ntook_seconds_count 3\n"),
            "{text}"
        );
    }
}
