//! `hostftl serve`: serves volumes as block devices.

mod doors;
mod event_sinks;
mod journal;
mod limits;
mod manager;
mod on_event;
mod ready;
pub(super) mod shadow;
mod volumes;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostftl_serve::{
    Address, Certificates, HttpServer, Options, Secure, Served, Server, SocketOwner,
};
use hostftl_sim::LayerSpec;
use hostftl_volume::{Acks, Events, Level, Status};

use crate::console::{Console, notice};
use crate::ending;
use crate::failure::Failure;
use crate::interrupt;
use crate::notify;
use crate::units::{bytes, counted, parse_size};

use self::event_sinks::EventSinks;
use self::limits::Limit;
use self::volumes::ServedVolume;
use super::witness::Traced;

/// Interval between checks of the volumes.
const POLL: Duration = Duration::from_millis(100);

/// Serve volumes as block devices (NBD, ublk)
///
/// Prints `ready URI` for each volume when clients can connect. SIGTERM or Ctrl-C completes the
/// requests in flight, makes all data durable and ends with exit code 0.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl serve vol.toml --nbd unix:/run/vol.sock")]
pub(crate) struct Args {
    /// Volume files, or folders with volume files; each volume is one export
    #[arg(required = true, value_name = "VOLUME")]
    volumes: Vec<PathBuf>,
    /// Start without missing members and exclude them permanently; needed once
    #[arg(long)]
    degraded: bool,
    /// Write nothing to the devices; recover in memory and refuse writes
    #[arg(long, conflicts_with_all = ["reuse_export_name", "ack", "record"])]
    read_only: bool,
    /// Time to wait for missing members
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait_devices: u64,
    /// Command timeout of a device, after which the layer runs without it [default: 120]
    #[arg(long, value_name = "DEVICE=SECONDS", value_parser = deadline)]
    deadline: Vec<(String, u64)>,
    /// Acknowledge writes when they are in memory (buffer), in memory that outlives the server
    /// (memfd), or durable (media) [default: buffer, media with --ublk]
    #[arg(long, value_enum)]
    ack: Option<Ack>,
    /// Reuse the export name after an unclean shutdown; no client may still hold unflushed writes
    #[arg(long)]
    reuse_export_name: bool,
    /// Action when the volume accepts no more writes: end with exit code 1, or keep serving reads
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = OnFailure::Exit)]
    on_failure: OnFailure,
    /// NBD address: unix:PATH (mode 0600), tcp:ADDRESS:PORT, or systemd (LISTEN_FDS)
    #[arg(long, value_name = "ADDRESS", required_unless_present = "ublk")]
    nbd: Option<Address>,
    /// Create a block device, /dev/ublkbN and /dev/hostftl/NAME, for each volume
    ///
    /// Without --ack buffer the device outlives the server and its requests wait for the next one.
    #[arg(long)]
    ublk: bool,
    /// Maximum number of queues of each ublk device, each with a thread
    #[arg(long, value_name = "NUMBER", requires = "ublk", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=64))]
    queues: u16,
    /// Use ublk on a kernel with known ublk bugs
    #[arg(long, requires = "ublk")]
    force: bool,
    /// Octal permissions of the unix socket [default: 0600, or 0660 with --socket-group]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    socket_mode: Option<u32>,
    /// Group of the unix socket, name or number
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// Limit the requests per second of each export, or of one; repeatable
    #[arg(long, value_name = "[EXPORT=]NUMBER", value_parser = limits::requests)]
    limit_requests: Vec<Limit>,
    /// Limit the bytes per second of each export, or of one, such as disk=50M; repeatable
    #[arg(long, value_name = "[EXPORT=]SIZE", value_parser = limits::bytes)]
    limit_bytes: Vec<Limit>,
    /// Require TLS with server-cert.pem and server-key.pem of this folder; without TLS, any host
    /// that reaches a TCP port can read and write
    #[arg(long, value_name = "DIR")]
    tls_certificates: Option<PathBuf>,
    /// Require client certificates signed by ca-cert.pem of that folder
    #[arg(long, requires = "tls_certificates")]
    tls_verify_peer: bool,
    /// Accept only client certificates with this common name or DNS name; repeatable
    #[arg(long, value_name = "NAME", requires = "tls_verify_peer")]
    tls_allow: Vec<String>,
    /// Start a scrub at this interval, such as 30d
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    scrub_every: Option<Duration>,
    /// Serve a read-only page with the state of the volumes at ADDRESS:PORT or unix:PATH (mode
    /// 0600); addresses other than loopback need --tls-certificates
    #[arg(long, value_name = "ADDRESS", value_parser = page_address)]
    http: Option<Address>,
    /// Export Prometheus metrics at http://ADDRESS:PORT/metrics, without authentication
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Run a program for each event, with its kind and the volume file as arguments
    ///
    /// The variables HOSTFTL_VOLUME, HOSTFTL_LEVEL, HOSTFTL_TEXT, HOSTFTL_NUMBER, HOSTFTL_COUNT,
    /// HOSTFTL_UNIX_MS and HOSTFTL_DEVICE describe the event.
    #[arg(long, value_name = "PROGRAM")]
    on_event: Option<PathBuf>,
    /// Record all inputs of the layer for `hostftl replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Record client requests as a trace (.csv or .hft, also with .zst); trims and zeroing become
    /// discards
    #[arg(long, value_name = "FILE")]
    record_trace: Option<PathBuf>,
    /// Model the flash wear without a layer, and with these layers, on a sample of the requests
    ///
    /// Layers with parameters, comma-separated; `auto` stands for those that `advise` tries first.
    /// Figures appear in `status`, at --http and at --metrics. Takes up to 64 MiB and 3 % of a
    /// processor.
    #[arg(long, value_name = "LAYERS", value_parser = hostftl_frontend::shadow::candidates)]
    shadow: Option<Candidates>,
    /// Drive model of the shadow [default: by the unit that the device reports, or tlc]
    #[arg(long, value_name = "DRIVE", requires = "shadow")]
    shadow_drive: Option<String>,
    /// Limit of each recording: --record ends there, --record-trace keeps the newest requests
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    record_limit: u64,
}

/// Candidates of a shadow, in one value of an option.
type Candidates = Vec<LayerSpec>;

/// Value of `--ack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Ack {
    Buffer,
    Memfd,
    Media,
}

/// Value of `--on-failure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnFailure {
    Exit,
    ServeErrors,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let files = volumes::files(&args.volumes)?;
    let owner = args.owner()?;
    args.check_for(files.len())?;
    ending::report_panics();
    interrupt::serve();
    hostftl_io::return_freed_memory();
    interrupt::then(ending::before_ready);
    let sinks = Arc::new(EventSinks::new(args.on_event.as_deref())?);
    let all = volumes::start(&files, args)?;
    // A signal from now on is handled by `doors::serve`, which stops cleanly.
    interrupt::then(|| {});
    let totals = bind(args, owner, &all).and_then(|(server, http)| {
        all.iter().for_each(|one| one.follow(&sinks));
        let secure = server.iter().filter_map(Server::secure);
        let secure = secure.chain(http.iter().filter_map(HttpServer::secure));
        reload_at_hangup(secure.collect(), all[0].events());
        let disks = doors::attach(args, &all)?;
        let totals = doors::serve(server, disks, &all, args.on_failure, console);
        drop(http);
        totals
    });
    manager::stopping();
    // The volumes are closed cleanly even if the server failed.
    let stopped: Vec<_> = all.into_iter().map(ServedVolume::stop).collect();
    sinks.finish();
    let totals = totals?;
    let stopped: Vec<_> = stopped.into_iter().collect::<Result<_, _>>()?;
    print_end(totals, &stopped, args.read_only, console)
}

/// Starts to listen for NBD and HTTP clients, as far as requested.
fn bind(
    args: &Args,
    owner: SocketOwner,
    all: &[ServedVolume],
) -> Result<(Option<Server>, Vec<HttpServer>), Failure> {
    let names: Vec<_> = all.iter().map(ServedVolume::name).collect();
    limits::check(&args.limit_requests, &names)?;
    limits::check(&args.limit_bytes, &names)?;
    let (verify_peer, allow) = (args.tls_verify_peer, args.tls_allow.clone());
    let folder = args.tls_certificates.clone();
    let tls = folder.map(|folder| Certificates { folder, verify_peer, allow });
    let http = volumes::http(args, tls.as_ref(), all)?;
    let Some(address) = args.nbd.clone() else { return Ok((None, http)) };
    if address.is_everywhere() && tls.is_none() {
        let text = format!(
            "{address} accepts connections from every network without authentication; use one \
             address, or --tls-certificates"
        );
        all[0].events().report(Level::Warning, "note", text);
    }
    let exports = all.iter().map(|one| one.exported(args)).collect();
    let server = Server::bind(Options { address, owner, tls, exports });
    Ok((Some(server.map_err(Failure::failed)?), http))
}

/// Prints the totals after the stop.
fn print_end(
    totals: Served,
    stopped: &[(Status, Option<Traced>)],
    read_only: bool,
    console: &mut Console,
) -> Result<(), Failure> {
    let traffic = stopped.iter().filter_map(|(status, _)| status.traffic.as_ref());
    let written = traffic.map(|traffic| traffic.host_write_bytes).sum();
    let Served { connections, requests } = totals;
    let totals = serde_json::json!({ "clients": connections, "requests": requests });
    match (console.is_json(), stopped) {
        (true, [(status, trace)]) => console.value(&serde_json::json!({
            "stopped": totals, "status": status, "trace": trace,
        })),
        (true, several) => {
            let all: Vec<_> = several.iter().map(|(status, _)| status).collect();
            console.value(&serde_json::json!({ "stopped": totals, "volumes": all }))
        }
        (false, stopped) => {
            let mut traced = stopped.iter().filter_map(|(_, traced)| traced.as_ref());
            traced.try_for_each(|traced| console.line(traced.text()))?;
            let clients = counted(connections, "client");
            let traffic = format!("{} by {clients}", counted(requests, "request"));
            if read_only {
                console.line(format!("stopped: {traffic}, no device was written"))
            } else {
                console.line(format!("stopped clean: {traffic}, {} written", bytes(written)))
            }
        }
    }
}

impl Args {
    /// Returns the permissions of the unix socket.
    fn owner(&self) -> Result<SocketOwner, Failure> {
        let is_given = self.socket_mode.is_some() || self.socket_group.is_some();
        if is_given && !matches!(self.nbd, Some(Address::Unix(_))) {
            let text = "--socket-mode and --socket-group need --nbd unix:PATH";
            return Err(Failure::usage(text));
        }
        let group = self.socket_group.as_deref().map(SocketOwner::find_group).transpose();
        let group = group.map_err(Failure::usage)?;
        let usual = if group.is_some() { 0o660 } else { SocketOwner::default().mode };
        Ok(SocketOwner { mode: self.socket_mode.unwrap_or(usual), group })
    }

    /// Returns the settings of the shadow, if there is one.
    fn shadow(&self) -> Option<shadow::Settings> {
        let (layers, drive) = (self.shadow.clone()?, self.shadow_drive.clone());
        Some(shadow::Settings { layers, drive })
    }

    /// Returns the acknowledgement policy.
    fn acks(&self) -> Acks {
        // Users of a block device that outlives its server are not notified when the server dies,
        // so they would not repeat buffered writes.
        let usual = if self.ublk && !self.read_only { Ack::Media } else { Ack::Buffer };
        match self.ack.unwrap_or(usual) {
            Ack::Buffer => Acks::Buffer,
            Ack::Memfd => Acks::Memfd,
            Ack::Media => Acks::Media,
        }
    }

    /// Checks combinations of options that clap can't, for this number of volumes.
    fn check_for(&self, volumes: usize) -> Result<(), Failure> {
        if self.ublk && !(self.limit_requests.is_empty() && self.limit_bytes.is_empty()) {
            let text = "--limit-requests and --limit-bytes apply to NBD clients; use cgroups \
                        (io.max) for block devices";
            return Err(Failure::usage(text));
        }
        let page = match &self.http {
            Some(Address::Tcp(place)) => Some(place),
            _ => None,
        };
        if self.tls_certificates.is_some() {
            if self.nbd.is_none() && page.is_none() {
                return Err(Failure::usage(
                    "--tls-certificates needs --nbd or --http ADDRESS:PORT",
                ));
            }
        } else if let Some(place) = page.filter(|place| !place.ip().is_loopback()) {
            return Err(Failure::usage(format!(
                "--http {place} needs --tls-certificates, because any host could read the page; \
                 without TLS, use a loopback address such as 127.0.0.1:8080"
            )));
        }
        let single = [
            ("--degraded", self.degraded),
            ("--deadline", !self.deadline.is_empty()),
            ("--record", self.record.is_some()),
            ("--record-trace", self.record_trace.is_some()),
        ];
        match single.iter().find(|(_, is_given)| *is_given && volumes > 1) {
            None => Ok(()),
            Some((option, _)) => {
                let text = format!("{option} needs a single volume, not {volumes}");
                Err(Failure::usage(text))
            }
        }
    }
}

/// Parses octal permission bits.
fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| mode & !0o777 == 0);
    mode.ok_or_else(|| "write octal permissions, such as 0660".into())
}

/// Parses the address of the page.
fn page_address(text: &str) -> Result<Address, String> {
    if text.starts_with("unix:") {
        return text.parse().map_err(|_| "write unix:PATH".into());
    }
    text.parse().map(Address::Tcp).map_err(|_| "write ADDRESS:PORT or unix:PATH".into())
}

/// Parses a device and its command timeout in seconds.
fn deadline(text: &str) -> Result<(String, u64), String> {
    // A URI may contain an equals sign.
    let parts =
        text.rsplit_once('=').and_then(|(name, seconds)| Some((name, seconds.parse().ok()?)));
    let (name, seconds) = parts.ok_or("write DEVICE=SECONDS, such as /dev/sdb=300")?;
    Ok((name.into(), seconds))
}

/// Reloads the certificates at SIGHUP.
fn reload_at_hangup(secure: Vec<Secure>, events: Events) {
    interrupt::at_hangup(move || {
        if secure.is_empty() {
            return;
        }
        match secure.iter().try_for_each(Secure::reload) {
            Ok(()) => events.report(Level::Info, "note", "certificates reloaded"),
            Err(error) => {
                let text = format!(
                    "cannot reload the certificates: {error}; the previous ones stay in use"
                );
                events.report(Level::Warning, "note", text);
            }
        }
    });
}

/// Prints a note on standard error before the volumes are served, and sends it to the service
/// manager.
fn log(text: &str) {
    notify::manager().status(text);
    notice(format_args!("note: {text}"));
}
