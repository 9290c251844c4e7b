//! `hostftl serve`: the block device.

mod manager;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hostftl_serve::{Address, Certificates, Log, Metrics, Options, Secure, Served, Server};
use hostftl_volume::{
    Beginning, Events, Level, OpenOptions, Reach, Running, Service, Sink, StartOptions,
};

use crate::console::Console;
use crate::ending;
use crate::failure::Failure;
use crate::interrupt;
use crate::notify;
use crate::units::{bytes, counted};

use self::manager::{Pulse, Start};
use super::witness::Tracing;

/// How long the last lines may take on their way to whoever reads them.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How often to look whether the volume still runs.
const LOOK: Duration = Duration::from_millis(100);

/// Serve a volume as a block device
///
/// Prints one line, `ready URI`, when clients can connect. SIGTERM or Ctrl-C answers what is in
/// flight, makes everything durable, closes the volume clean, and ends with exit code 0.
#[derive(clap::Args)]
pub struct Args {
    /// The volume's file
    volume: PathBuf,
    /// Serve without the members that are missing, DEGRADED: they are out for good, because they
    /// miss writes from now on. Needed once: the other members remember it
    #[arg(long)]
    degraded: bool,
    /// Write nothing to the devices, ever: recovery goes on in memory, and clients may only read
    #[arg(long, conflicts_with_all = ["go_on", "ack", "record"])]
    read_only: bool,
    /// How long to wait for members that are not there yet
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait_devices: u64,
    /// How long a command of a device may take before the layer does without it, if it can; 120
    /// unless the volume's file says otherwise
    #[arg(long, value_name = "DEVICE=SECONDS", value_parser = deadline)]
    deadline: Vec<(String, u64)>,
    /// When writes are answered: once they are buffered, so that a flush makes them durable, or, as
    /// on a write-through device, only once they are durable on the media
    #[arg(long, value_enum, default_value_t = Acks::Buffer)]
    ack: Acks,
    /// Serve under the plain name again after an unclean end: the operator's word that no client is
    /// left which believes that its unflushed writes are there
    #[arg(long)]
    go_on: bool,
    /// What to do when nothing can be written any more: end with exit code 1, so that a service
    /// manager acts, or go on answering reads and errors
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = OnFailure::Exit)]
    on_failure: OnFailure,
    /// Where NBD clients connect: unix:PATH (mode 0600), tcp:ADDRESS:PORT on that one address, or
    /// systemd for the socket that the service manager hands over (LISTEN_FDS)
    #[arg(long, value_name = "ADDRESS")]
    nbd: Address,
    /// Require TLS, with server-cert.pem and server-key.pem from this folder; without it, whoever
    /// reaches a TCP port reads and writes the volume
    #[arg(long, value_name = "DIR")]
    tls_certificates: Option<PathBuf>,
    /// Take only clients whose certificate ca-cert.pem in that folder has signed
    #[arg(long, requires = "tls_certificates")]
    tls_verify_peer: bool,
    /// And of those only clients whose certificate has this name, as its common name or a DNS name;
    /// may be said several times
    #[arg(long, value_name = "NAME", requires = "tls_verify_peer")]
    tls_allow: Vec<String>,
    /// Export metrics for Prometheus at http://ADDRESS:PORT/metrics; whoever reaches it reads them
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Record everything that the layer is told, for `hostftl replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Record the clients' requests as a trace, .csv or .hft, perhaps with .zst behind it; trims
    /// and zeroing become discards
    #[arg(long, value_name = "FILE")]
    record_trace: Option<PathBuf>,
}

/// When writes are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Acks {
    Buffer,
    Media,
}

/// What to do when the layer has failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnFailure {
    Exit,
    ServeErrors,
}

/// Runs the command.
///
/// # Errors
/// When the volume or the socket can't be used, or a device fails beyond repair.
pub fn run(args: Args, console: &mut Console) -> Result<(), Failure> {
    ending::tell_panics();
    interrupt::then(|| ending::before_ready());
    // Threads that are started later are protected with this one.
    let protection = hostftl_volume::protect();
    let wait = Duration::from_secs(args.wait_devices);
    let beginning = Beginning::default();
    let told = Start::tell(args.volume.display().to_string(), wait, beginning.clone());
    let open = OpenOptions {
        degraded: args.degraded,
        wait,
        tell: log,
        deadlines: args.deadline,
        ..if args.read_only { OpenOptions::read_only() } else { OpenOptions::default() }
    };
    let volume = hostftl_volume::open_with(&args.volume, &open)?;
    let reach = if args.nbd.is_local() { Reach::Machine } else { Reach::Beyond };
    let service = Some(Service { reach, go_on: args.go_on });
    let through = args.ack == Acks::Media;
    let start = StartOptions { record: args.record, service, through, protection, beginning };
    let (running, port) = volume.start(&start)?;
    drop(told);
    // A signal from now on is seen as soon as the server runs, and ends it clean.
    interrupt::then(|| {});
    let lines = Log::to(io::stderr()).map_err(Failure::failed)?;
    let events = running.events();
    let sink = to_lines(&lines, port.export().name.clone());
    let tracing = args.record_trace.as_deref().map(|path| Tracing::begin(path, &events));
    let tracing = tracing.transpose()?;
    let metrics = args.metrics.map(|address| metrics(address, &running)).transpose()?;
    let (verify_peer, allow) = (args.tls_verify_peer, args.tls_allow);
    let tls = args.tls_certificates.map(|folder| Certificates { folder, verify_peer, allow });
    let (address, witness) = (args.nbd, tracing.as_ref().map(Tracing::witness));
    let server = Server::bind(Options { address, port, tls, witness, events });
    let served = server.map_err(Failure::failed).and_then(|server| {
        running.events().follow(sink);
        if let Some(trouble) = notify::manager().trouble() {
            running.events().tell(Level::Warning, "note", trouble);
        }
        reload_at_hangup(server.secure(), running.events());
        serve(server, &running, args.on_failure, console)
    });
    drop(metrics);
    manager::stopping();
    // The volume is closed clean also when the server failed.
    let status = running.stop();
    lines.finish(LAST_WORDS);
    let traced = tracing.map(Tracing::finish).transpose();
    let (served, status, traced) = (served?, status?, traced?);
    let written = status.traffic.as_ref().map_or(0, |traffic| traffic.host_write_bytes);
    match console.is_json() {
        true => console.value(&serde_json::json!({
            "stopped": { "clients": served.connections, "requests": served.requests },
            "status": status,
            "trace": traced,
        })),
        false => {
            traced.iter().try_for_each(|traced| console.line(traced.text()))?;
            let requests = counted(served.requests, "request");
            let traffic = format!("{requests} by {}", counted(served.connections, "client"));
            if args.read_only {
                return console
                    .line(format!("stopped: {traffic}, nothing was written to the devices"));
            }
            console.line(format!("stopped clean: {traffic}, {} written", bytes(written)))
        }
    }
}

/// A device and seconds.
fn deadline(text: &str) -> Result<(String, u64), String> {
    // A URI may have an equals sign of its own.
    let parts =
        text.rsplit_once('=').and_then(|(name, seconds)| Some((name, seconds.parse().ok()?)));
    let (name, seconds) = parts.ok_or("write DEVICE=SECONDS, as in /dev/sdb=300")?;
    Ok((name.into(), seconds))
}

/// Answers scrapers from now on.
fn metrics(address: SocketAddr, running: &Running) -> Result<Metrics, Failure> {
    let metrics = Metrics::serve(address, running.figures()).map_err(Failure::failed)?;
    let text = format!("figures for Prometheus at http://{}/metrics", metrics.address());
    running.events().tell(Level::Info, "note", text);
    Ok(metrics)
}

/// SIGHUP ends nothing from now on; certificates are read again.
fn reload_at_hangup(secure: Option<Secure>, events: Events) {
    interrupt::at_hangup(move || {
        let Some(secure) = &secure else { return };
        match secure.reload() {
            Ok(()) => events.tell(Level::Info, "note", "the certificates were read again"),
            Err(error) => {
                let text = format!("the certificates of before stay in use: {error}");
                events.tell(Level::Warning, "note", text);
            }
        }
    });
}

/// Serves until a signal comes, the volume's driver ends, or the layer has failed for good.
fn serve(
    server: Server,
    running: &Running,
    on_failure: OnFailure,
    console: &mut Console,
) -> Result<Served, Failure> {
    let (stopper, over) = (server.stopper(), AtomicBool::new(false));
    let by_signal = stopper.clone();
    interrupt::then(move || {
        ending::limit_stop();
        manager::stopping();
        by_signal.stop();
    });
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut pulse = Pulse::of(running);
            while !over.load(Ordering::SeqCst) {
                thread::park_timeout(LOOK);
                pulse.look();
                if running.has_panicked() {
                    ending::after_panic();
                }
                let failed = on_failure == OnFailure::Exit && running.failure().is_some();
                if failed || !running.is_alive() {
                    stopper.stop();
                }
            }
        });
        let served = server.run(&mut Ready { console, running, said: Vec::new() });
        over.store(true, Ordering::SeqCst);
        watcher.thread().unpark();
        served.map_err(Failure::failed)
    })
}

/// A line on standard error for each event.
fn to_lines(lines: &Log, volume: String) -> Sink {
    let lines = lines.clone();
    Box::new(move |event| lines.line(event.level, &volume, &event.text))
}

/// One line on standard error before anything is served.
fn log(text: &str) {
    notify::manager().status(text);
    let _ = writeln!(io::stderr(), "hostftl: note: {text}");
}

/// Prints the server's `ready` line, as JSON if that is wanted.
struct Ready<'a> {
    console: &'a mut Console,
    running: &'a Running,
    said: Vec<u8>,
}

impl Write for Ready<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.said.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = String::from_utf8_lossy(&self.said).trim_end().to_owned();
        self.said.clear();
        let uri = line.strip_prefix("ready ").unwrap_or(&line);
        let printed = match self.console.is_json() {
            true => self.console.value(&serde_json::json!({ "ready": uri })),
            false => self.console.line(&line),
        };
        let printed = printed.and_then(|()| self.console.flush());
        printed.map_err(|failure| io::Error::other(failure.text))?;
        notify::manager().ready(&manager::serving(self.running));
        Ok(())
    }
}
