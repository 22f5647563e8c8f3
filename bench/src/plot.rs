//! Throughput and latency over the number of runs at once, as a picture that is text: SVG needs neither fonts nor an encoder here.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::figures::{P50, RATE};
use crate::report::{Report, Section};

const SIZE: (u32, u32) = (1_400, 700);
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the sections that are measured at several numbers of runs at once.
pub(crate) fn draw(report: &Report, file: &Path) -> Result<()> {
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let halves = area.split_evenly((1, 2));
    let sections: Vec<&Section> = report.sections().iter().filter(|section| grows(section)).collect();
    chart(&halves[0], "steps or runs a second", &sections, RATE)?;
    chart(&halves[1], "p50 of each, µs", &sections, P50)?;
    area.present().map_err(failed)
}

/// Measured at several sizes, with a latency.
fn grows(section: &Section) -> bool {
    let mut ours = section.lines.iter().filter(|line| line.of == "stepwell" && line.figures.get(P50).is_some());
    ours.next().is_some() && ours.next().is_some()
}

fn chart(area: &Area<'_>, title: &str, sections: &[&Section], figure: &str) -> Result<()> {
    let points = |section: &Section| -> Vec<(f64, f64)> {
        let ours = section.lines.iter().filter(|line| line.of == "stepwell");
        ours.filter_map(|line| Some((f64::from(line.size), line.figures.get(figure)?.max(0.1)))).collect()
    };
    let all: Vec<(f64, f64)> = sections.iter().flat_map(|section| points(section)).collect();
    let most = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).fold(1.0, f64::max);
    let least = all.iter().map(|point| point.1).fold(f64::MAX, f64::min).min(1e9);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 24))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(80)
        .build_cartesian_2d(
            (1.0..most(|point| point.0)).log_scale(),
            (least / 2.0..most(|point| point.1) * 2.0).log_scale(),
        )
        .map_err(failed)?;
    let whole = |value: &f64| format!("{value:.0}");
    chart
        .configure_mesh()
        .x_desc("runs at once")
        .x_label_formatter(&whole)
        .y_label_formatter(&whole)
        .label_style((FONT, 15))
        .draw()
        .map_err(failed)?;
    for (at, section) in sections.iter().enumerate() {
        let color = Palette99::pick(at).to_rgba();
        let line = LineSeries::new(points(section), color.stroke_width(3)).point_size(5);
        let drawn = chart.draw_series(line).map_err(failed)?;
        drawn
            .label(section.name.clone())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 24, y)], color.stroke_width(3)));
    }
    chart.configure_series_labels().label_font((FONT, 15)).border_style(BLACK).draw().map_err(failed)?;
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the picture cannot be drawn: {error}")
}
