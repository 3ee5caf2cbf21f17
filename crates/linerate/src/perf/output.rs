//! The table for people and the rows for programs.

use super::sample::Samples;
use anyhow::Context;
use linerate::mem::TscClock;
use serde_json::{Map, Value, json};
use std::{
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
}

impl Report {
    /// Opens the file at once, so that a bad path is known before anything is measured.
    pub fn open(json: Option<&Path>, only: Vec<String>, clock: &TscClock) -> anyhow::Result<Self> {
        let table = json != Some(Path::new("-"));
        let json: Option<Box<dyn Write>> = match json {
            None => None,
            Some(_) if !table => Some(Box::new(io::stdout())),
            Some(p) => {
                Some(Box::new(File::create(p).with_context(|| format!("cannot write {}", p.display()))?))
            }
        };
        if table {
            println!("# cycles of the time stamp counter: {}", clock.source());
            println!("{:<58} {:>28} {:>10} {:>10} {:>10}", "what", "unit", "min", "median", "max");
        }
        Ok(Report { rows: Vec::new(), json, table, only })
    }

    /// Whether a row with this line is wanted.
    pub fn wants(&self, line: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|o| line.contains(o.as_str()))
    }

    /// Adds a row: its line in the table, its unit, its samples, and what else a program needs to know.
    /// Without samples the row says so: not met, and `null`.
    pub fn row(&mut self, line: &str, unit: &str, samples: &Samples, fields: Value) {
        let summary = samples.summary();
        if self.table {
            match summary {
                Some([min, median, max]) => {
                    println!("{line:<58} {unit:>28} {min:>10.2} {median:>10.2} {max:>10.2}");
                }
                None => println!("{line:<58} {unit:>28} {:>10} {:>10} {:>10}", "-", "not met", "-"),
            }
        }
        let Value::Object(mut row) = fields else { unreachable!("rows are objects") };
        let round = |v: f64| json!((v * 1000.0).round() / 1000.0);
        row.insert("unit".into(), unit.into());
        for (i, key) in ["min", "median", "max"].into_iter().enumerate() {
            row.insert(key.into(), summary.map_or(Value::Null, |s| round(s[i])));
        }
        self.rows.push(Value::Object(Map::from_iter(row)));
    }

    /// Writes the rows.
    pub fn finish(self) -> anyhow::Result<()> {
        if let Some(mut w) = self.json {
            writeln!(w, "{}", serde_json::to_string_pretty(&self.rows)?).context("cannot write the rows")?;
            w.flush().context("cannot write the rows")?;
        }
        Ok(())
    }
}
