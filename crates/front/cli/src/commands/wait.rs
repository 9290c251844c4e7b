//! `hostftl wait`: waits for background tasks of a volume.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_volume::{Event, Running, Status, TaskStatus, supported_tasks};

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::bytes;

/// Maximum interval between queries of the status. The first queries follow faster.
const POLL: Duration = Duration::from_millis(100);
/// Interval between progress lines.
const LINE: Duration = Duration::from_secs(5);
/// Time without a task after which incomplete work counts as abandoned.
const IDLE: Duration = Duration::from_secs(2);
/// Time without progress after which a task that needs space counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// Wait for background work of a served volume
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl wait vol.toml rebuild --timeout 1h")]
pub(crate) struct Args {
    /// Volume file
    volume: PathBuf,
    /// Task [default: all tasks]
    #[arg(value_parser = ["rebuild", "resilver", "evacuate", "scrub", "copy"])]
    task: Option<String>,
    /// End with exit code 1 after this time; the work continues
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    served(&args.volume, args.task.as_deref(), args.timeout, console)
}

/// Waits for a task of a volume that another process serves; for all tasks if `task` is `None`.
pub(super) fn served(
    volume: &Path,
    task: Option<&str>,
    timeout: Option<Duration>,
    console: &mut Console,
) -> Result<(), Failure> {
    let mut poll = || {
        let status = hostftl_volume::status(volume)?;
        let events = hostftl_volume::events(volume)?;
        let name = volume.display();
        if !events.served {
            return Err(Failure::failed(format!("{name} is not served: no background work")));
        }
        Ok((status, events.of_run().to_vec()))
    };
    watch(volume, (task, timeout), &mut poll, console)
}

/// Waits for a task of a volume that this process has open, then closes the volume.
pub(super) fn here(
    volume: &Path,
    running: Running,
    task: &str,
    console: &mut Console,
) -> Result<(), Failure> {
    let mut poll = || Ok((running.status(), running.events().since(0)));
    let waited = watch(volume, (Some(task), None), &mut poll, console);
    running.stop()?;
    waited
}

/// Returns the current status and the events of this run.
type Poll<'a> = &'a mut dyn FnMut() -> Result<(Status, Vec<Event>), Failure>;

fn watch(
    volume: &Path,
    (wanted, timeout): (Option<&str>, Option<Duration>),
    poll: Poll,
    console: &mut Console,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut printed: Option<Instant> = None;
    let (mut stuck, mut idle) = (Stuck::default(), None);
    let is_over = |timeout| begun.elapsed() >= timeout;
    let mut first: Option<First> = None;
    loop {
        let (status, events) = poll()?;
        if first.is_none() {
            refuse_impossible(volume, wanted, &status)?;
        }
        let first = first.get_or_insert_with(|| First::of(&status, &events));
        let wants = |task: &&TaskStatus| wanted.is_none_or(|wanted| wanted == task.task);
        let mut tasks = status.tasks.iter().filter(wants).peekable();
        first.tasks.extend(tasks.clone().map(|task| task.task.clone()));
        if tasks.peek().is_none() {
            let undone = first.undone(wanted, &status, &events);
            // There is no task for a moment between two steps of a rebuild.
            let since = *idle.get_or_insert_with(Instant::now);
            if undone.is_none() || since.elapsed() >= IDLE || timeout.is_some_and(is_over) {
                return end(volume, (wanted, undone), &events, console);
            }
        } else {
            idle = None;
        }
        if let Some(paused) = status.tasks.iter().find(|task| wants(task) && task.paused) {
            let (name, task) = (volume.display(), &paused.task);
            let next = format!("resume it with `hostftl {task} {name} --resume`");
            return Err(Failure::failed(format!("{name}: {task} is paused; {next}")));
        }
        if let Some(task) = stuck.update(tasks.clone(), Instant::now()) {
            return Err(needs_space(volume, task));
        }
        if !console.is_json() && printed.is_none_or(|printed| printed.elapsed() >= LINE) {
            tasks.clone().try_for_each(|task| console.line(line(task)))?;
            console.flush()?;
            printed = Some(Instant::now());
        }
        if let Some(timeout) = timeout.filter(|timeout| is_over(*timeout)) {
            let left = tasks.map(line).collect::<Vec<_>>().join("; ");
            let (name, timeout) = (volume.display(), humantime::format_duration(timeout));
            return Err(Failure::failed(format!("{name}: not complete after {timeout}: {left}")));
        }
        if interrupt::asked() {
            let name = volume.display();
            return Err(Failure::interrupted(format!(
                "{name}: stopped waiting; the work continues"
            )));
        }
        thread::sleep((begun.elapsed() / 16).clamp(POLL / 10, POLL));
    }
}

/// Returns a usage error if the layer of the volume never has the task.
fn refuse_impossible(volume: &Path, wanted: Option<&str>, status: &Status) -> Result<(), Failure> {
    let Some(task) = wanted else { return Ok(()) };
    let possible = supported_tasks(&status.parameters);
    if possible.contains(&task) {
        return Ok(());
    }
    let (name, layer) = (volume.display(), &status.layer);
    let instead = format!("wait for {}", possible.join(" or "));
    Err(Failure::usage(format!(
        "{name}: layer {layer} of this volume has no {task} task; {instead}"
    )))
}

/// State of a volume at the start of the wait, and the tasks seen since.
struct First {
    tasks: BTreeSet<String>,
    /// Number of removed devices.
    removed: usize,
    /// Number of the newest event.
    event: u64,
}

impl First {
    fn of(status: &Status, events: &[Event]) -> Self {
        let event = events.last().map_or(0, |event| event.number);
        First { tasks: BTreeSet::new(), removed: removed(status), event }
    }

    /// Returns the reason why the work is incomplete although no task is left; `None` if it is
    /// complete.
    fn undone(&self, wanted: Option<&str>, status: &Status, events: &[Event]) -> Option<String> {
        let is_wanted = |task: &str| wanted.is_none_or(|wanted| wanted == task);
        let saw = |task: &str| is_wanted(task) && self.tasks.contains(task);
        let new = || events.iter().filter(|event| event.number > self.event);
        if is_wanted("rebuild") || is_wanted("resilver") {
            let space = status.space.as_ref();
            if let Some(space) = space.filter(|it| it.degraded_bytes + it.unreadable_bytes > 0) {
                let (left, all) = (space.degraded_bytes.max(space.unreadable_bytes), space);
                let (left, all) = (bytes(left), bytes(all.physical_bytes));
                let lost = status.devices.iter().filter(|it| it.health != "online");
                let lost: Vec<_> =
                    lost.map(|it| format!("device {} is {}", it.number, it.health)).collect();
                let because =
                    if lost.is_empty() { String::new() } else { format!(" ({})", lost.join(", ")) };
                let room = match space.trim_required_bytes {
                    0 => String::new(),
                    excess => format!("trim {}, or ", bytes(excess)),
                };
                return Some(format!(
                    "{left} of {all} still lack redundancy, and no rebuild is running{because}; \
                     {room}replace the device"
                ));
            }
        }
        if saw("evacuate") && removed(status) == self.removed {
            return Some("the removal was cancelled".into());
        }
        if saw("copy")
            && let Some(event) = new().find(|event| event.kind == "replace-cancelled")
        {
            return Some(event.text.clone());
        }
        let stopped = || new().any(|event| event.text.starts_with("scrub stopped"));
        (saw("scrub") && stopped()).then(|| "the scrub was stopped before completion".into())
    }
}

/// Returns the number of removed devices.
fn removed(status: &Status) -> usize {
    status.devices.iter().filter(|device| device.health == "removed").count()
}

/// Detector of tasks that need space and make no progress: the smallest number of remaining bytes,
/// and the time when it was reached.
#[derive(Debug, Default)]
struct Stuck(Option<(u64, Instant)>);

impl Stuck {
    /// Checks the tasks. Returns the first one that needs space if it has made no progress for
    /// [`PATIENCE`].
    fn update<'a>(
        &mut self,
        mut tasks: impl Iterator<Item = &'a TaskStatus>,
        now: Instant,
    ) -> Option<&'a TaskStatus> {
        let Some(task) = tasks.find(|task| task.needs_space) else {
            self.0 = None;
            return None;
        };
        let (left, since) = *self.0.get_or_insert((task.remaining_bytes, now));
        if task.remaining_bytes < left {
            self.0 = Some((task.remaining_bytes, now));
        }
        (task.remaining_bytes >= left && now - since >= PATIENCE).then_some(task)
    }
}

/// Creates the error of a task that needs space: the data of a leaving device does not fit on the
/// others.
fn needs_space(volume: &Path, task: &TaskStatus) -> Failure {
    let (name, task, left) = (volume.display(), &task.task, bytes(task.remaining_bytes));
    let cancel = format!("keep the device with `hostftl device remove {name} DEVICE --cancel`");
    let remedy = format!("trim, add a device, or {cancel}");
    Failure::needs_attention(format!(
        "{name}: {task} has no space for the remaining {left}; {remedy}"
    ))
}

/// Formats the progress of a task in one line.
pub(super) fn line(task: &TaskStatus) -> String {
    let all = task.done_bytes + task.remaining_bytes;
    let percent = 100.0 * task.done_bytes as f64 / all.max(1) as f64;
    let (done, all) = (bytes(task.done_bytes), bytes(all));
    let rate = task.bytes_per_second.map_or(String::new(), |rate| format!(", {}/s", bytes(rate)));
    let left = |seconds| humantime::format_duration(Duration::from_secs(seconds));
    let left = task.eta_seconds.map_or(String::new(), |it| format!(", {} left", left(it)));
    let state = match (task.paused, task.needs_space) {
        (true, _) => ", paused",
        (false, true) => ", needs space",
        (false, false) => "",
    };
    format!("{} {done} of {all} ({percent:.1} %){rate}{left}{state}", task.task)
}

/// Prints the result of the wait: the newest event of the task, or the reason why the work is
/// incomplete.
fn end(
    volume: &Path,
    (wanted, undone): (Option<&str>, Option<String>),
    events: &[Event],
    console: &mut Console,
) -> Result<(), Failure> {
    let kind = match wanted {
        Some("rebuild") => Some("rebuilt"),
        Some("resilver") => Some("device-joined"),
        Some("evacuate") => Some("device-removed"),
        Some("copy") => Some("device-replaced"),
        other => other,
    };
    let is = |event: &&Event| kind.is_some_and(|kind| event.kind.starts_with(kind));
    let last = events.iter().rev().find(is);
    if console.is_json() {
        console.value(&serde_json::json!({
            "volume": volume, "over": wanted, "event": last, "undone": undone,
        }))?;
    } else if undone.is_none() {
        let text = last.map_or("no background work", |event| event.text.as_str());
        console.line(format!("{}: {text}", volume.display()))?;
    }
    if let Some(why) = undone {
        return Err(Failure::needs_attention(format!("{}: {why}", volume.display())));
    }
    match last.filter(|event| event.level == hostftl_volume::Level::Error) {
        Some(event) => {
            Err(Failure::needs_attention(format!("{}: {}", volume.display(), event.text)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use hostftl_volume::Space;

    use super::*;
    use crate::console::ColorChoice;

    #[test]
    fn a_task_without_space_or_progress_counts_as_stuck() {
        let (mut stuck, begin) = (Stuck::default(), Instant::now());
        let task = |remaining_bytes, needs_space| TaskStatus {
            task: "evacuate".into(),
            remaining_bytes,
            needs_space,
            ..TaskStatus::default()
        };
        let mut update = |at: Duration, left, lacks| {
            stuck.update([&task(left, lacks)].into_iter(), begin + at).map(|it| it.remaining_bytes)
        };
        assert_eq!(update(Duration::ZERO, 10, true), None);
        assert_eq!(update(PATIENCE, 9, true), None, "progress");
        assert_eq!(update(PATIENCE * 3 / 2, 9, true), None, "too early");
        assert_eq!(update(PATIENCE * 2, 9, true), Some(9));
        assert_eq!(update(PATIENCE * 3, 9, false), None, "space is available again");
        assert_eq!(update(PATIENCE * 4, 9, true), None, "the time restarts");
        let volume = Path::new("v.toml");
        let text = needs_space(volume, &task(4096, true)).text;
        assert!(text.contains("device remove v.toml DEVICE --cancel"), "{text}");
        assert!(line(&task(1, true)).ends_with(", needs space"));
    }

    #[test]
    fn unfinished_tasks_are_no_success() {
        let of = |degraded_bytes| Status {
            layer: "log".into(),
            parameters: "log:parity=yes".into(),
            space: Some(Space { degraded_bytes, ..Space::default() }),
            ..Status::default()
        };
        let first = |seen: &str| {
            let mut first = First::of(&of(0), &[]);
            first.tasks.insert(seen.into());
            first
        };
        let undone = |seen: &str, wanted, status: &Status, events: &[Event]| {
            first(seen).undone(wanted, status, events)
        };
        assert!(undone("resilver", None, &of(4096), &[]).is_some_and(|it| it.contains("4 KiB")));
        assert!(undone("resilver", Some("rebuild"), &of(4096), &[]).is_some());
        assert_eq!(undone("resilver", Some("scrub"), &of(4096), &[]), None);
        assert_eq!(undone("resilver", None, &of(0), &[]), None);
        let cancelled = undone("evacuate", Some("evacuate"), &of(0), &[]);
        assert!(cancelled.is_some_and(|it| it.contains("cancelled")));
        let mut removed = of(0);
        let health = "removed".into();
        removed.devices.push(hostftl_volume::DeviceStatus { health, ..Default::default() });
        assert_eq!(undone("evacuate", None, &removed, &[]), None);
        let text = "scrub stopped before its end".into();
        let event = Event {
            number: 1,
            unix_ms: 0,
            first_unix_ms: 0,
            count: 1,
            device: None,
            level: hostftl_volume::Level::Info,
            kind: "scrub-complete".into(),
            text,
        };
        assert!(undone("scrub", Some("scrub"), &of(0), &[event]).is_some());
        // A task that the layer never has is a usage error.
        let tier = Status { layer: "tier".into(), parameters: "tier".into(), ..Status::default() };
        for (task, status) in [("scrub", &tier), ("rebuild", &tier)] {
            let refused = refuse_impossible(Path::new("v.toml"), Some(task), status).unwrap_err();
            assert_eq!(refused.code, 2, "{}", refused.text);
        }
        assert_eq!(refuse_impossible(Path::new("v.toml"), Some("resilver"), &of(0)), Ok(()));
    }

    #[test]
    fn a_timeout_names_the_task_with_exit_code_1() {
        let volume = Path::new("v.toml");
        let scrub = TaskStatus {
            task: "scrub".into(),
            done_bytes: 1 << 20,
            remaining_bytes: 3 << 20,
            ..TaskStatus::default()
        };
        let parameters = "log:parity=yes".into();
        let status = Status { tasks: vec![scrub], parameters, ..Status::default() };
        let mut polls = 0;
        let mut poll = || {
            polls += 1;
            Ok((status.clone(), Vec::new()))
        };
        let timeout = Some(2 * POLL);
        let begun = Instant::now();
        let mut console = Console::new(true, ColorChoice::Never);
        let failure = watch(volume, (None, timeout), &mut poll, &mut console).unwrap_err();
        assert!(begun.elapsed() >= 2 * POLL);
        assert_eq!(failure.code, 1);
        assert!(
            failure.text.starts_with("v.toml: not complete after 200ms: scrub "),
            "{}",
            failure.text
        );
        assert!(watch(volume, (Some("resilver"), timeout), &mut poll, &mut console).is_ok());
        assert!(polls >= 3);
    }
}
