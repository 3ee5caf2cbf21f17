//! Where lines come from: a terminal with editing, history and completion, or a pipe. Read by a thread of its own,
//! so that a signal is noticed while nobody types.

use super::{grammar::Known, grammar::complete, table};
use crate::testpmd::{error::TestpmdError, out::Out};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::{
    Config, Context, Editor, Helper, completion::Completer, error::ReadlineError, highlight::Highlighter,
    hint::Hinter, history::MemHistory, validate::Validator,
};
use std::{
    io::{self, BufRead, IsTerminal, Read},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

/// What stands before a command.
const PROMPT: &str = "testpmd> ";
/// Longest line in bytes.
pub(super) const LINE_MAX: usize = 1 << 16;

/// What came instead of, or as, a line.
#[derive(Debug)]
pub(super) enum Entry {
    Line(String),
    /// A line longer than [`LINE_MAX`], thrown away.
    TooLong,
    /// Ctrl-C on a terminal.
    Interrupted,
    /// No line will come any more.
    End,
    /// The input cannot be read.
    Failed(String),
}

/// The lines of standard input, each read when it is asked for.
pub(super) struct Input {
    ask: SyncSender<()>,
    entries: Receiver<Entry>,
    /// How the terminal was set: it is set so again however the program ends.
    terminal: Option<Termios>,
    out: Out,
}

impl Input {
    /// Begins; nothing is read before the first [`ask`](Self::ask).
    ///
    /// # Errors
    ///
    /// The terminal cannot be set up, or the system refuses a thread.
    pub fn open(known: Known, out: Out) -> Result<Self, TestpmdError> {
        let (ask, asked) = sync_channel(1);
        let (send, entries) = sync_channel(1);
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let terminal = is_terminal.then(|| tcgetattr(io::stdin()).ok()).flatten();
        let mut read: Box<dyn FnMut() -> Entry + Send> = if is_terminal {
            let mut editor = editor(known).map_err(|e| failed(io::Error::other(e)))?;
            Box::new(move || edited(&mut editor))
        } else {
            Box::new(|| plain(&mut io::stdin().lock()))
        };
        // Nobody waits for it: it may stand in a read for ever, and is gone with the program.
        thread::Builder::new()
            .name("prompt".into())
            .spawn(move || while asked.recv().is_ok() && send.send(read()).is_ok() {})
            .map_err(failed)?;
        Ok(Input { ask, entries, terminal, out })
    }

    /// Shows the prompt and waits for a line from now on.
    pub fn ask(&self) {
        if self.terminal.is_none() {
            self.out.put(PROMPT);
        }
        // It waits for this: a full channel was asked already, a closed one answers with the end.
        _ = self.ask.try_send(());
    }

    /// What came within this time.
    pub fn next(&self, timeout: Duration) -> Option<Entry> {
        let entry = match self.entries.recv_timeout(timeout) {
            Ok(entry) => entry,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => Entry::End,
        };
        if self.terminal.is_none() {
            // So that what a script did can be read from its output.
            let shown = if let Entry::Line(line) = &entry { line.as_str() } else { "" };
            self.out.say(shown);
        }
        Some(entry)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Some(settings) = &self.terminal {
            _ = tcsetattr(io::stdin(), OptionalActions::Flush, settings);
        }
    }
}

fn failed(source: io::Error) -> TestpmdError {
    TestpmdError::System { what: "the prompt", source }
}

/// A line of a pipe or file, without its end.
pub(super) fn plain(input: &mut impl BufRead) -> Entry {
    let mut bytes = Vec::new();
    let mut long = false;
    loop {
        let from = bytes.len();
        match input.by_ref().take(LINE_MAX as u64).read_until(b'\n', &mut bytes) {
            Ok(0) if bytes.is_empty() && !long => return Entry::End,
            Ok(_) => {}
            Err(e) => return Entry::Failed(e.to_string()),
        }
        let ended = bytes.last() == Some(&b'\n') || bytes.len() == from || bytes.len() - from < LINE_MAX;
        if ended && !long {
            let text = String::from_utf8_lossy(&bytes);
            return Entry::Line(text.trim_end_matches(['\n', '\r']).into());
        }
        if ended {
            return Entry::TooLong;
        }
        long = true;
        bytes.clear();
    }
}

fn edited(editor: &mut Editor<Words, MemHistory>) -> Entry {
    match editor.readline(PROMPT) {
        Ok(line) if line.len() > LINE_MAX => Entry::TooLong,
        Ok(line) => {
            if !line.trim().is_empty() {
                _ = editor.add_history_entry(&line);
            }
            Entry::Line(line)
        }
        Err(ReadlineError::Interrupted) => Entry::Interrupted,
        Err(ReadlineError::Eof) => Entry::End,
        Err(e) => Entry::Failed(e.to_string()),
    }
}

fn editor(known: Known) -> rustyline::Result<Editor<Words, MemHistory>> {
    let config = Config::builder().max_history_size(1000)?.completion_type(rustyline::CompletionType::List);
    let mut editor = Editor::with_history(config.build(), MemHistory::new())?;
    editor.set_helper(Some(Words(known)));
    Ok(editor)
}

/// Completes by the table of commands.
struct Words(Known);

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..at).unwrap_or(line);
        let (start, mut words) = complete(before, table::rows(), self.0);
        for word in &mut words {
            word.push(' ');
        }
        Ok((start, words))
    }
}

impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(mut bytes: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            match plain(&mut bytes) {
                Entry::End => return all,
                Entry::Line(l) => all.push(l),
                other => all.push(format!("{other:?}")),
            }
        }
    }

    #[test]
    fn lines_end_with_either_end_or_none() {
        assert_eq!(entries(b"a\r\n\nb\xff c"), ["a", "", "b\u{fffd} c"]);
        assert!(entries(b"").is_empty());
    }

    #[test]
    fn a_line_too_long_is_thrown_away_and_the_next_one_is_read() {
        for extra in [1, 7, LINE_MAX, LINE_MAX + 1, 3 * LINE_MAX] {
            let mut bytes = vec![b'x'; LINE_MAX + extra];
            bytes.extend(b"\nquit\n");
            assert_eq!(entries(&bytes), ["TooLong", "quit"], "{extra}");
            bytes.truncate(LINE_MAX + extra);
            assert_eq!(entries(&bytes), ["TooLong"], "{extra}");
        }
        assert_eq!(entries(&vec![b'x'; LINE_MAX - 1]).first().map(String::len), Some(LINE_MAX - 1));
    }
}
