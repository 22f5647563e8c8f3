//! What was measured, told: a table on stdout, the same as JSON.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Value, json};

use crate::figures::{BYTES, CPU, Figures, P50, P99, RATE, Rounds};
use crate::lab::Lab;
use crate::machine;

pub(crate) struct Report {
    quick: bool,
    rounds: u32,
    sections: Vec<Section>,
    targets: Vec<Target>,
    notes: Vec<String>,
}

/// One kind of work, at several sizes.
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

/// One thing at one size.
#[derive(Clone)]
pub(crate) struct Line {
    /// Runs at once, or steps, or whatever the section grows by.
    pub(crate) size: u32,
    /// Stepwell, or a floor.
    pub(crate) of: &'static str,
    pub(crate) figures: Figures,
}

/// What was to be reached.
#[derive(Clone, Copy)]
pub(crate) enum At {
    Least(f64),
    Most(f64),
}

struct Target {
    what: String,
    is: f64,
    at: At,
}

/// The lines of one size.
pub(crate) struct Lines(Vec<(&'static str, Figures)>);

impl Lines {
    /// A figure; not a number where it was not measured.
    pub(crate) fn of(&self, what: &str, figure: &str) -> f64 {
        let line = self.0.iter().find(|(of, _)| *of == what);
        line.and_then(|(_, figures)| figures.get(figure)).unwrap_or(f64::NAN)
    }
}

impl Report {
    pub(crate) fn new(lab: &Lab) -> Result<Self> {
        Ok(Self {
            quick: lab.quick,
            rounds: lab.rounds,
            sections: Vec::new(),
            targets: Vec::new(),
            notes: lab.missing.iter().cloned().collect(),
        })
    }

    /// The medians of these rounds as lines of a section.
    pub(crate) fn add(&mut self, section: &str, size: u32, rounds: &Rounds) -> Lines {
        let medians = rounds.medians();
        let lines = medians.iter().map(|(of, figures)| Line { size, of, figures: figures.clone() });
        match self.sections.iter_mut().find(|known| known.name == section) {
            Some(known) => known.lines.extend(lines),
            None => self.sections.push(Section { name: section.to_owned(), lines: lines.collect() }),
        }
        Lines(medians)
    }

    pub(crate) fn target(&mut self, what: impl Into<String>, is: f64, at: At) {
        self.targets.push(Target { what: what.into(), is, at });
    }

    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// A note that several parts make.
    pub(crate) fn note_once(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    pub(crate) fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The table.
    pub(crate) fn print(&self) {
        let quick = if self.quick { ", a quick look" } else { "" };
        println!("{} cores, medians of {} rounds in turns{quick}", machine::cores(), self.rounds);
        for section in &self.sections {
            print_section(section);
        }
        if !self.targets.is_empty() {
            println!("\ntargets");
        }
        for Target { what, is, at } in &self.targets {
            let (met, sign, bound) = at.judge(*is);
            let verdict = if met { "met" } else { "MISSED" };
            println!("  {verdict:<7} {what}: {} ({sign} {})", short(*is), short(bound));
        }
        self.notes.iter().for_each(|note| println!("\n{note}"));
    }

    pub(crate) fn write_json(&self, file: &Path) -> Result<()> {
        let sections: Vec<Value> = self.sections.iter().map(section_json).collect();
        let target = |target: &Target| {
            let (met, sign, bound) = target.at.judge(target.is);
            json!({ "what": target.what, "is": target.is, "bound": format!("{sign} {bound}"), "met": met })
        };
        let at_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let all = json!({
            "at_s": at_s,
            "cores": machine::cores(),
            "quick": self.quick,
            "rounds": self.rounds,
            "version": env!("CARGO_PKG_VERSION"),
            "sections": sections,
            "targets": self.targets.iter().map(target).collect::<Vec<_>>(),
            "notes": self.notes,
        });
        Ok(std::fs::write(file, format!("{all:#}\n"))?)
    }
}

impl At {
    fn judge(self, is: f64) -> (bool, &'static str, f64) {
        match self {
            Self::Least(bound) => (is >= bound, "at least", bound),
            Self::Most(bound) => (is <= bound, "at most", bound),
        }
    }
}

fn section_json(section: &Section) -> Value {
    let line = |line: &Line| json!({ "size": line.size, "of": line.of, "figures": line.figures });
    json!({ "name": section.name, "lines": section.lines.iter().map(line).collect::<Vec<_>>() })
}

/// The figures in their usual order; others follow by name.
fn columns(section: &Section) -> Vec<&'static str> {
    const USUAL: [&str; 5] = [RATE, P50, P99, CPU, BYTES];
    let has = |name: &str| section.lines.iter().any(|line| line.figures.get(name).is_some());
    let mut columns: Vec<&'static str> = USUAL.into_iter().filter(|name| has(name)).collect();
    for name in section.lines.iter().flat_map(|line| line.figures.0.keys().copied()) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    columns
}

fn print_section(section: &Section) {
    let columns = columns(section);
    println!("\n{}", section.name);
    print!("  {:>8}  {:<26}", "size", "");
    columns.iter().for_each(|name| print!(" {name:>14}"));
    println!("  stepwell, of its rate");
    for line in &section.lines {
        print!("  {:>8}  {:<26}", line.size, line.of);
        for name in &columns {
            print!(" {:>14}", line.figures.get(name).map_or_else(String::new, short));
        }
        let ours = section.lines.iter().find(|ours| ours.size == line.size && ours.of == "stepwell");
        let share = ours
            .filter(|_| line.of != "stepwell")
            .and_then(|ours| Some(ours.figures.get(RATE)? / line.figures.get(RATE)?));
        println!("{}", share.map_or_else(String::new, |share| format!("  {share:.3}")));
    }
}

/// With three digits that count, or all of them before the point.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
