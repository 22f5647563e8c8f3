//! Figures by name, their medians over rounds, and quantiles.

use std::collections::BTreeMap;

use serde::Serialize;

/// What one measurement has shown. The names say the unit.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Figures(pub(crate) BTreeMap<&'static str, f64>);

impl Figures {
    pub(crate) fn with(mut self, name: &'static str, value: f64) -> Self {
        self.0.insert(name, value);
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

/// Steps, requests or runs a second; the one figure that everything has.
pub(crate) const RATE: &str = "per_s";
/// Half of them took at most this.
pub(crate) const P50: &str = "p50_us";
/// 99 of 100 took at most this.
pub(crate) const P99: &str = "p99_us";
/// Computing time of this process for each, its kernel time included.
pub(crate) const CPU: &str = "cpu_us";
/// Of the journal's entries, for each.
pub(crate) const BYTES: &str = "journal_bytes";

/// The same things measured in turns.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Vec<(&'static str, Vec<Figures>)>);

impl Rounds {
    pub(crate) fn add(&mut self, of: &'static str, figures: Figures) {
        match self.0.iter_mut().find(|(name, _)| *name == of) {
            Some((_, rounds)) => rounds.push(figures),
            None => self.0.push((of, vec![figures])),
        }
    }

    /// The medians of each thing, in the order in which they first came.
    pub(crate) fn medians(&self) -> Vec<(&'static str, Figures)> {
        self.0.iter().map(|(name, rounds)| (*name, medians(rounds))).collect()
    }
}

fn medians(rounds: &[Figures]) -> Figures {
    let names = rounds.iter().flat_map(|figures| figures.0.keys().copied());
    let mut all = Figures::default();
    for name in names {
        let mut values: Vec<f64> = rounds.iter().filter_map(|figures| figures.get(name)).collect();
        all.0.insert(name, quantile(&mut values, 0.5));
    }
    all
}

/// The value that this share of them does not exceed; 0 of none.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values.get(at.saturating_sub(1).min(values.len().saturating_sub(1))).copied().unwrap_or_default()
}
