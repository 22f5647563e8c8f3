//! Throughput and latency over the number of runs at once, as a picture: PNG, with a font that comes along.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use clap::ValueEnum as _;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use zune_core::bit_depth::BitDepth;
use zune_core::colorspace::ColorSpace;
use zune_core::options::EncoderOptions;
use zune_png::PngEncoder;

use crate::figures::{Figures, P50, RATE};
use crate::peer::Peer;
use crate::report::{Report, Section};

/// In pixels.
const SIZE: (u32, u32) = (1_400, 700);
const FONT: &str = "sans-serif";
/// Stepwell's own lines.
const OURS: &str = "stepwell";

type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;

/// A line of the picture.
struct Series {
    name: String,
    /// Stepwell's are drawn thick, the peers' thin.
    ours: bool,
    figures: Vec<(u32, Figures)>,
}

/// Draws the sections that are measured at several numbers of runs at once.
pub(crate) fn draw(report: &Report, file: &Path) -> Result<()> {
    register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT).map_err(|_| failed("its font"))?;
    let (width, height) = (SIZE.0 as usize, SIZE.1 as usize);
    let mut pixels = vec![0; width * height * 3];
    draw_into(report, &mut pixels)?;
    let options = EncoderOptions::new(width, height, ColorSpace::RGB, BitDepth::Eight);
    let mut png = Vec::new();
    PngEncoder::new(&pixels, options).encode(&mut png).map_err(|error| failed(format!("{error:?}")))?;
    std::fs::write(file, png).with_context(|| format!("{} cannot be written", file.display()))
}

fn draw_into(report: &Report, pixels: &mut [u8]) -> Result<()> {
    let area = BitMapBackend::with_buffer(pixels, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let halves = area.split_evenly((1, 2));
    let sections = report.sections().iter().filter(|section| grows(section));
    let all: Vec<Series> = sections.flat_map(series).collect();
    chart(&halves[0], "steps or runs a second", &all, RATE)?;
    chart(&halves[1], "p50 of each, µs", &all, P50)?;
    area.present().map_err(failed)
}

/// Measured at several sizes, with a latency.
fn grows(section: &Section) -> bool {
    let mut ours = section.lines.iter().filter(|line| line.of == OURS && line.figures.get(P50).is_some());
    ours.next().is_some() && ours.next().is_some()
}

/// What is compared in a section: Stepwell and, where they were measured, its peers. What it stands on has the table.
fn series(section: &Section) -> Vec<Series> {
    let peers = Peer::value_variants().iter().map(|peer| peer.name());
    let of = |of: &'static str| {
        let lines = section.lines.iter().filter(|line| line.of == of);
        let figures: Vec<_> = lines.map(|line| (line.size, line.figures.clone())).collect();
        let name = if of == OURS { section.name.clone() } else { format!("{} on {of}", section.name) };
        (!figures.is_empty()).then_some(Series { name, ours: of == OURS, figures })
    };
    std::iter::once(OURS).chain(peers).filter_map(of).collect()
}

impl Series {
    fn points(&self, figure: &str) -> Vec<(f64, f64)> {
        let points = self.figures.iter();
        points.filter_map(|(size, figures)| Some((f64::from(*size), figures.get(figure)?.max(0.1)))).collect()
    }
}

fn chart(area: &Area<'_>, title: &str, all: &[Series], figure: &str) -> Result<()> {
    let points: Vec<(f64, f64)> = all.iter().flat_map(|series| series.points(figure)).collect();
    let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(1.0, f64::max);
    let least = points.iter().map(|point| point.1).fold(f64::MAX, f64::min).min(1e9);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 24))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(80)
        .build_cartesian_2d(
            // Room beside the last point, and above the highest one for the names.
            (1.0..most(|point| point.0) * 1.2).log_scale(),
            (least / 2.0..most(|point| point.1) * 20.0).log_scale(),
        )
        .map_err(failed)?;
    let whole = |value: &f64| format!("{value:.0}");
    chart
        .configure_mesh()
        .x_desc("runs at once")
        .x_label_formatter(&whole)
        .y_label_formatter(&whole)
        .label_style((FONT, 15))
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(failed)?;
    for (at, series) in all.iter().enumerate() {
        let style = Palette99::pick(at).stroke_width(if series.ours { 4 } else { 2 });
        let line = LineSeries::new(series.points(figure), style).point_size(if series.ours { 5 } else { 3 });
        let drawn = chart.draw_series(line).map_err(failed)?;
        drawn.label(series.name.clone()).legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 24, y)], style));
    }
    let mut names = chart.configure_series_labels();
    names.position(SeriesLabelPosition::UpperLeft).label_font((FONT, 15));
    names.background_style(WHITE).border_style(BLACK.mix(0.3)).draw().map_err(failed)?;
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the picture cannot be drawn: {error}")
}
