//! The table for people and the rows for programs.

use super::sample::Samples;
use anyhow::{Context, ensure};
use linerate::mem::TscClock;
use serde_json::{Map, Value, json};
use std::{
    cell::Cell,
    error, fmt,
    fs::File,
    io::{self, Write},
    path::Path,
};

/// Where the rows go.
pub struct Report {
    rows: Vec<Value>,
    json: Option<Box<dyn Write>>,
    table: bool,
    only: Vec<String>,
    /// Rows that were wanted, also those that this machine cannot have.
    wanted: Cell<bool>,
}

/// The reader of the table has gone away: an end, and no fault.
#[derive(Debug)]
pub struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads standard output")
    }
}

impl error::Error for ReaderGone {}

impl Report {
    /// Opens the file at once, so that a bad path is known before anything is measured.
    pub fn open(json: Option<&Path>, only: Vec<String>, clock: &TscClock) -> anyhow::Result<Self> {
        let table = json != Some(Path::new("-"));
        let json: Option<Box<dyn Write>> = match json {
            None => None,
            Some(_) if !table => Some(Box::new(io::stdout())),
            Some(p) => {
                let hint =
                    || format!("cannot write {}\n  hint: look at the path and its rights", p.display());
                Some(Box::new(File::create(p).with_context(hint)?))
            }
        };
        let report = Report { rows: Vec::new(), json, table, only, wanted: Cell::new(false) };
        report.line(format_args!("# cycles of the time stamp counter: {}", clock.source()))?;
        let head = format_args!("{:<58} {:>28} {:>10} {:>10} {:>10}", "what", "unit", "min", "median", "max");
        report.line(head)?;
        Ok(report)
    }

    /// A line of the table.
    ///
    /// # Errors
    ///
    /// [`ReaderGone`] when nobody reads any more; anything else that standard output says.
    pub fn line(&self, line: fmt::Arguments<'_>) -> anyhow::Result<()> {
        if !self.table {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        match writeln!(out, "{line}").and_then(|()| out.flush()) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
            other => other.context("cannot write to standard output"),
        }
    }

    /// Whether a row with this line is wanted.
    pub fn wants(&self, line: &str) -> bool {
        let wanted = self.only.is_empty() || self.only.iter().any(|o| line.contains(o.as_str()));
        self.wanted.set(self.wanted.get() | wanted);
        wanted
    }

    /// Adds a row: its line in the table, its unit, its samples, and what else a program needs to know.
    /// Without samples the row says so: not met, and `null`.
    ///
    /// # Errors
    ///
    /// As for [`line`](Self::line).
    pub fn row(&mut self, line: &str, unit: &str, samples: &Samples, fields: Value) -> anyhow::Result<()> {
        let summary = samples.summary();
        match summary {
            Some([min, median, max]) => {
                self.line(format_args!("{line:<58} {unit:>28} {min:>10.2} {median:>10.2} {max:>10.2}"))?;
            }
            None => {
                self.line(format_args!("{line:<58} {unit:>28} {:>10} {:>10} {:>10}", "-", "not met", "-"))?
            }
        }
        let Value::Object(mut row) = fields else { unreachable!("rows are objects") };
        let round = |v: f64| json!((v * 1000.0).round() / 1000.0);
        row.insert("unit".into(), unit.into());
        for (i, key) in ["min", "median", "max"].into_iter().enumerate() {
            row.insert(key.into(), summary.map_or(Value::Null, |s| round(s[i])));
        }
        self.rows.push(Value::Object(Map::from_iter(row)));
        Ok(())
    }

    /// Writes the rows.
    ///
    /// # Errors
    ///
    /// No row was wanted, or they cannot be written.
    pub fn finish(self) -> anyhow::Result<()> {
        ensure!(
            self.wanted.get(),
            "--only: no row holds that text\n  hint: run without --only to see the rows"
        );
        if let Some(mut w) = self.json {
            writeln!(w, "{}", serde_json::to_string_pretty(&self.rows)?).context("cannot write the rows")?;
            w.flush().context("cannot write the rows")?;
        }
        Ok(())
    }
}
