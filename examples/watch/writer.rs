//! Writes lines from a separate thread, so that the program can end while an unread pipe is full.

use std::io::{self, Write};
use std::thread;

use tokio::sync::{mpsc, oneshot};

/// A line, without its end, for one of the standard streams.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// For standard output.
    Out(String),
    /// For standard output, without a line end: the status line, which the next line replaces.
    Status(String),
    /// For standard error.
    Error(String),
}

/// Starts the thread. It ends after the sender is dropped and all lines are written, or at the first failure of
/// standard output. The second channel then has the result.
pub(crate) fn start() -> (mpsc::Sender<Line>, oneshot::Receiver<io::Result<()>>) {
    let (lines, mut queue) = mpsc::channel(1024);
    let (done, written) = oneshot::channel();
    thread::spawn(move || {
        let result = write_all(&mut queue);
        // The program may be ending already.
        let _ = done.send(result);
    });
    (lines, written)
}

fn write_all(queue: &mut mpsc::Receiver<Line>) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    while let Some(first) = queue.blocking_recv() {
        let mut next = Some(first);
        // One write serves all available lines.
        while let Some(line) = next {
            match line {
                Line::Out(text) => writeln!(out, "{text}")?,
                Line::Status(text) => out.write_all(text.as_bytes())?,
                Line::Error(text) => {
                    out.flush()?;
                    // The events may still be read even if the reports are not.
                    let _ = writeln!(io::stderr(), "{text}");
                }
            }
            next = queue.try_recv().ok();
        }
        out.flush()?;
    }
    Ok(())
}
