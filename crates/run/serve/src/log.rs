//! The one writer of lines about a server: nobody who has something to say waits for whoever reads.
//!
//! Invariants
//! - At most [`QUEUE`] lines wait. What does not fit, or comes faster than [`BURST`] and then
//!   [`RATE`] lines a second, is dropped and counted, and a later line says how much.
//! - A line is one line: what is not seen is escaped, and it is cut at [`LONGEST`] characters.

use hostftl_format::letters::Plain;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use hostftl_volume::Level;

/// Lines that wait for the writer.
const QUEUE: usize = 512;
/// Lines that may come at once.
const BURST: f64 = 200.0;
/// Lines a second after that.
const RATE: f64 = 20.0;
/// Characters of a line's text.
const LONGEST: usize = 400;
/// How often the writer looks whether it has to tell of dropped lines.
const LOOK: Duration = Duration::from_secs(1);

/// See the module text. Clones write to the same place.
#[derive(Clone, Debug)]
pub struct Log(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    lines: SyncSender<Message>,
    gate: Arc<Mutex<Gate>>,
}

/// What the writer is given.
#[derive(Debug)]
enum Message {
    /// A line with its end.
    Line(String),
    /// All that came before is out when this is dropped.
    Mark(Sender<()>),
}

/// What may pass, and what did not.
#[derive(Debug)]
struct Gate {
    /// Lines that may pass now.
    credit: f64,
    since: Instant,
    dropped: u64,
}

impl Gate {
    fn new() -> Self {
        Gate { credit: BURST, since: Instant::now(), dropped: 0 }
    }

    /// Whether a line may pass at `now`.
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
    /// Lines go to `out`, from a thread of their own.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn to(out: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (lines, queue) = sync_channel(QUEUE);
        let gate = Arc::new(Mutex::new(Gate::new()));
        let shared = gate.clone();
        let run = move || write(&queue, &shared, out);
        thread::Builder::new().name("log".into()).spawn(run)?;
        Ok(Log(Arc::new(Inner { lines, gate })))
    }

    /// Writes one line: the time, the level, the volume or whatever else is spoken of, the text.
    pub fn line(&self, level: Level, volume: &str, text: &str) {
        let mut gate = lock(&self.0.gate);
        let passes = gate.admits(Instant::now());
        let line = || Message::Line(form(level, volume, text));
        if !passes || self.0.lines.try_send(line()).is_err() {
            gate.dropped += 1;
        }
    }

    /// Lets what was said go out, but waits no longer than `most`: nobody may be reading.
    pub fn finish(&self, most: Duration) {
        let (mark, out) = channel();
        if self.0.lines.try_send(Message::Mark(mark)).is_ok() {
            // Nothing comes; the wait ends when the mark is gone.
            out.recv_timeout(most).ok();
        }
    }
}

/// Writes what comes until nobody can say anything any more.
fn write(queue: &Receiver<Message>, gate: &Mutex<Gate>, mut out: impl Write) {
    loop {
        let message = queue.recv_timeout(LOOK);
        tell_dropped(gate, &mut out);
        match message {
            // Whoever reads may be gone; serving goes on all the same.
            Ok(Message::Line(line)) => {
                out.write_all(line.as_bytes()).and_then(|()| out.flush()).ok();
            }
            Ok(Message::Mark(mark)) => drop(mark),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn tell_dropped(gate: &Mutex<Gate>, out: &mut impl Write) {
    let dropped = std::mem::take(&mut lock(gate).dropped);
    if dropped > 0 {
        let lines = if dropped == 1 { "line was" } else { "lines were" };
        let text = format!("{dropped} {lines} dropped: too many at once, or nobody read them");
        out.write_all(form(Level::Warning, "log", &text).as_bytes()).ok();
    }
}

/// A whole line with its end.
fn form(level: Level, volume: &str, text: &str) -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    format!("{now} {level} {}: {}\n", plain(volume), plain(text))
}

/// The front of the text as one line that changes nothing on a terminal.
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

    /// Keeps what is written.
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

    /// Never takes anything.
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
    fn a_line_has_a_time_a_level_a_volume_and_one_line_of_text() {
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
    fn nobody_waits_for_a_reader_that_stands_still() {
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
        let said = text.lines().filter(|line| line.contains(" v: line ")).count();
        let dropped = text.lines().filter_map(|line| line.split_once("log: ")).map(|(_, rest)| {
            rest.split(' ').next().and_then(|count| count.parse::<usize>().ok()).expect("a count")
        });
        assert_eq!(said + dropped.sum::<usize>(), 5000);
        assert!(said < 2 * BURST as usize, "{said}");
    }

    #[test]
    fn lines_may_come_again_after_a_while() {
        let (mut gate, now) = (Gate::new(), Instant::now());
        let passed = (0..1000).filter(|_| gate.admits(now)).count();
        assert_eq!(passed, BURST as usize);
        let later = now + Duration::from_secs(2);
        assert_eq!((0..1000).filter(|_| gate.admits(later)).count(), 2 * RATE as usize);
    }
}
