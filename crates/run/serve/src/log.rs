//! Writer of log lines. Threads that log never wait for the reader of the log.
//!
//! Invariants
//! - At most [`QUEUE`] lines wait. Lines that do not fit, or exceed a burst of [`BURST`] and then
//!   [`RATE`] lines a second, are dropped and counted; a later line reports the count.
//! - A message is one line: unprintable characters are escaped, and the text is cut at [`LONGEST`]
//!   characters.

use hostftl_format::letters::Plain;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use hostftl_volume::Level;

/// Maximum number of queued lines.
const QUEUE: usize = 512;
/// Maximum number of lines in a burst.
const BURST: f64 = 200.0;
/// Lines per second after a burst.
const RATE: f64 = 20.0;
/// Maximum length of a line's text in characters.
const LONGEST: usize = 400;
/// Interval at which the writer checks for dropped lines.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Log with a writer thread; clones write to the same output.
#[derive(Clone, Debug)]
pub struct Log(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    lines: SyncSender<Message>,
    limit: Arc<Mutex<RateLimit>>,
}

/// Message to the writer thread.
#[derive(Debug)]
enum Message {
    /// Complete line with its newline.
    Line(String),
    /// Marker whose drop signals that all earlier messages are written.
    Mark(Sender<()>),
}

/// Rate limiter, and the count of dropped lines.
#[derive(Debug)]
struct RateLimit {
    /// Lines that may pass now.
    credit: f64,
    since: Instant,
    dropped: u64,
}

impl RateLimit {
    fn new() -> Self {
        RateLimit { credit: BURST, since: Instant::now(), dropped: 0 }
    }

    /// Returns whether a line may pass at `now`, and takes its credit.
    fn admits(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        (self.credit, self.since) = ((self.credit + passed * RATE).min(BURST), now);
        let admits = self.credit >= 1.0;
        if admits {
            self.credit -= 1.0;
        }
        admits
    }
}

impl Log {
    /// Creates a log that writes to `out` from its own thread.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn to(out: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (lines, queue) = sync_channel(QUEUE);
        let limit = Arc::new(Mutex::new(RateLimit::new()));
        let shared = limit.clone();
        let run = move || write(&queue, &shared, out);
        thread::Builder::new().name("log".into()).spawn(run)?;
        Ok(Log(Arc::new(Inner { lines, limit })))
    }

    /// Writes one line: time, level, volume or other subject, and text.
    pub fn line(&self, level: Level, volume: &str, text: &str) {
        let mut limit = lock(&self.0.limit);
        let passes = limit.admits(Instant::now());
        let line = || Message::Line(form(level, volume, text));
        if !passes || self.0.lines.try_send(line()).is_err() {
            limit.dropped += 1;
        }
    }

    /// Waits until earlier lines are written, for at most `most`: the reader of the log may have
    /// stopped reading.
    pub fn finish(&self, most: Duration) {
        let (mark, out) = channel();
        if self.0.lines.try_send(Message::Mark(mark)).is_ok() {
            // No message is sent; the wait ends when the marker is dropped.
            out.recv_timeout(most).ok();
        }
    }
}

/// Writes messages until all clones of the log are dropped.
fn write(queue: &Receiver<Message>, limit: &Mutex<RateLimit>, mut out: impl Write) {
    loop {
        let message = queue.recv_timeout(CHECK_INTERVAL);
        report_dropped(limit, &mut out);
        match message {
            // The reader may have closed the pipe; serving continues without a log.
            Ok(Message::Line(line)) => {
                out.write_all(line.as_bytes()).and_then(|()| out.flush()).ok();
            }
            Ok(Message::Mark(mark)) => drop(mark),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn report_dropped(limit: &Mutex<RateLimit>, out: &mut impl Write) {
    let dropped = std::mem::take(&mut lock(limit).dropped);
    if dropped > 0 {
        let lines = if dropped == 1 { "line was" } else { "lines were" };
        let text = format!("{dropped} {lines} dropped: too fast, or not read");
        out.write_all(form(Level::Warning, "log", &text).as_bytes()).ok();
    }
}

/// Returns a complete line with its newline.
fn form(level: Level, volume: &str, text: &str) -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    format!("{now} {level} {}: {}\n", plain(volume), plain(text))
}

/// Returns the beginning of the text as one line without terminal control characters.
fn plain(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", Plain(&text[..end])),
        None => Plain(text).to_string(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the written bytes.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Accepts no bytes.
    struct Stuck;

    impl Write for Stuck {
        fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
            thread::sleep(Duration::from_secs(3600));
            Ok(0)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    const SOON: Duration = Duration::from_secs(300);

    #[test]
    fn lines_have_time_level_volume_and_text() {
        let kept = Kept::default();
        let log = Log::to(kept.clone()).unwrap();
        log.line(Level::Error, "v", "two\nlines \u{1b}[2J");
        log.line(Level::Info, "v", &"\u{7}".repeat(4000));
        log.finish(SOON);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].ends_with("Z error v: two\\nlines \\u{1b}[2J"), "{text}");
        assert!(lines[0].starts_with("20"), "{text}");
        assert!(lines[1].len() < 8 * LONGEST && lines[1].ends_with('…'), "{text}");
    }

    #[test]
    fn a_stalled_reader_does_not_block() {
        let log = Log::to(Stuck).unwrap();
        let begun = Instant::now();
        (0..5000).for_each(|number| log.line(Level::Info, "v", &format!("line {number}")));
        log.finish(Duration::from_millis(10));
        assert!(begun.elapsed() < SOON);
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let kept = Kept::default();
        let log = Log::to(kept.clone()).unwrap();
        (0..5000).for_each(|number| log.line(Level::Info, "v", &format!("line {number}")));
        log.finish(SOON);
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let written = text.lines().filter(|line| line.contains(" v: line ")).count();
        let dropped = text.lines().filter_map(|line| line.split_once("log: ")).map(|(_, rest)| {
            rest.split(' ').next().and_then(|count| count.parse::<usize>().ok()).expect("a count")
        });
        assert_eq!(written + dropped.sum::<usize>(), 5000);
        assert!(written < 2 * BURST as usize, "{written}");
    }

    #[test]
    fn suppressed_lines_are_repeated_later() {
        let (mut limit, now) = (RateLimit::new(), Instant::now());
        let passed = (0..1000).filter(|_| limit.admits(now)).count();
        assert_eq!(passed, BURST as usize);
        let later = now + Duration::from_secs(2);
        assert_eq!((0..1000).filter(|_| limit.admits(later)).count(), 2 * RATE as usize);
    }
}
