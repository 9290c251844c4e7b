//! Volumes of one server: their files, their parallel start, their events and their stop.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hostftl_serve::{Address, Certificates, Exported, HttpOptions, HttpServer, RequestObserver};
use hostftl_volume::front::Port;
use hostftl_volume::{
    Events, Level, OpenOptions, Reach, RecordOptions, Running, Service, Sink, StartOptions,
    StartProgress, Status,
};

use crate::commands::witness::{Traced, Tracing};
use crate::ending;
use crate::failure::Failure;
use crate::notify;

use super::event_sinks::EventSinks;
use super::manager::Start;
use super::shadow::{Several, Shadowing};
use super::{Args, limits, log};

/// A running volume.
pub(super) struct ServedVolume {
    /// Absolute path of the volume file.
    file: PathBuf,
    pub running: Running,
    port: Port,
    tracing: Option<Tracing>,
    shadowing: Option<Shadowing>,
}

/// Returns the volume files: the named ones, and `*.toml` in named folders.
pub(super) fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
        let mut found = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            if file.extension().is_some_and(|ending| ending == "toml") && file.is_file() {
                found.push(file);
            }
        }
        if found.is_empty() {
            let text = format!("{}: the folder has no volume file (*.toml)", path.display());
            return Err(Failure::failed(text));
        }
        found.sort();
        files.append(&mut found);
    }
    let full = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    for (index, file) in files.iter().enumerate() {
        if files[..index].iter().any(|other| full(other) == full(file)) {
            return Err(Failure::usage(format!("{} is given twice", file.display())));
        }
    }
    Ok(files)
}

/// Opens and recovers all volumes in parallel. If one fails, the others are closed.
pub(super) fn start(files: &[PathBuf], args: &Args) -> Result<Vec<ServedVolume>, Failure> {
    // Before the threads of the volumes start, which inherit the protection.
    let protection = hostftl_volume::protect();
    let started: Vec<_> = thread::scope(|scope| {
        let start = |file: &PathBuf| {
            let (file, protection) = (file.clone(), protection.clone());
            let thread = thread::Builder::new().name(format!("start of {}", file.display()));
            thread.spawn_scoped(scope, move || start_one(&file, args, protection))
        };
        let threads: Vec<_> = files.iter().map(start).collect();
        let ended = threads.into_iter().map(|thread| match thread.map(|thread| thread.join()) {
            Ok(Ok(started)) => started,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => Err(Failure::failed(format!("cannot start a thread: {error}"))),
        });
        ended.collect()
    });
    let (mut all, mut failure) = (Vec::new(), None);
    for started in started {
        match started {
            Ok(one) => all.push(one),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        None => Ok(all),
        // The drop of the others closes them.
        Some(failure) => Err(failure),
    }
}

fn start_one(file: &Path, args: &Args, protection: Vec<String>) -> Result<ServedVolume, Failure> {
    let (wait, start_progress) = (Duration::from_secs(args.wait_devices), StartProgress::default());
    let progress = Start::report(file.display().to_string(), wait, start_progress.clone());
    let open = OpenOptions {
        degraded: args.degraded,
        wait,
        report: log,
        deadlines: args.deadline.clone(),
        ..if args.read_only { OpenOptions::read_only() } else { OpenOptions::default() }
    };
    let volume = hostftl_volume::open_with(file, &open)?;
    let local = args.nbd.as_ref().is_none_or(Address::is_local);
    let reach = if local { Reach::Machine } else { Reach::Beyond };
    let service = Some(Service { reach, reuse_export_name: args.reuse_export_name });
    let acks = args.acks();
    let limit = args.record_limit;
    let record = args.record.clone().map(|path| RecordOptions { path, limit });
    let (running, port) = volume.start(&StartOptions {
        record,
        service,
        acks,
        protection,
        scrub_every: args.scrub_every,
        start_progress,
        before_serving: Some(ending::must_be_clean),
    })?;
    drop(progress);
    let tracing = args.record_trace.as_deref();
    let tracing = tracing.map(|path| Tracing::begin(path, limit, &running.events())).transpose()?;
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let shadow = args.shadow();
    let shadow = shadow.map(|it| Shadowing::begin(&it, running.status_handle())).transpose()?;
    Ok(ServedVolume { file, running, port, tracing, shadowing: shadow })
}

impl ServedVolume {
    /// Returns the name of the export.
    pub(super) fn name(&self) -> String {
        self.port.export().name.clone()
    }

    /// Returns the export for a server.
    pub(super) fn exported(&self, args: &Args) -> Exported {
        let tracing = self.tracing.iter().map(Tracing::witness);
        let all: Vec<_> = tracing.chain(self.shadowing.iter().map(Shadowing::observer)).collect();
        let witness: Option<Arc<dyn RequestObserver>> = match &all[..] {
            [] => None,
            [one] => Some(one.clone()),
            _ => Some(Arc::new(Several(all))),
        };
        let limits = limits::of(&self.name(), &args.limit_requests, &args.limit_bytes);
        Exported { witness, events: self.events(), limits, ..Exported::new(self.port.clone()) }
    }

    pub(super) fn events(&self) -> Events {
        self.running.events()
    }

    /// Passes each event so far, and from now on, to the receivers.
    pub(super) fn follow(&self, sinks: &Arc<EventSinks>) {
        let (sinks, file, name) = (sinks.clone(), self.file.clone(), self.name());
        let sink: Sink = Box::new(move |event| sinks.pass(&file, &name, event));
        self.events().follow(sink);
        if let Some(trouble) = notify::manager().trouble() {
            self.events().report(Level::Warning, "note", trouble);
        }
    }

    /// Closes the volume cleanly, and ends its trace.
    pub(super) fn stop(self) -> Result<(Status, Option<Traced>), Failure> {
        self.shadowing.into_iter().for_each(Shadowing::finish);
        let status = self.running.stop().map_err(Failure::from);
        let traced = self.tracing.map(Tracing::finish).transpose();
        Ok((status?, traced?))
    }
}

/// Starts the servers of the page and of the metrics, as far as requested.
pub(super) fn http(
    args: &Args,
    tls: Option<&Certificates>,
    all: &[ServedVolume],
) -> Result<Vec<HttpServer>, Failure> {
    let page = args.http.clone().map(|address| {
        // A unix socket has permissions instead.
        let tls = tls.filter(|_| !address.is_local()).cloned();
        HttpOptions { address, page: true, tls }
    });
    let metrics = args.metrics.map(Address::Tcp);
    let metrics = metrics.map(|address| HttpOptions { address, page: false, tls: None });
    let mut servers = Vec::new();
    for options in page.into_iter().chain(metrics) {
        let volumes = all.iter().map(|one| one.running.status_handle()).collect();
        let server = HttpServer::serve(&options, volumes).map_err(Failure::failed)?;
        let scheme = if server.secure().is_some() { "https" } else { "http" };
        let text = match (server.address(), options.page) {
            (Some(address), true) => format!("page at {scheme}://{address}/"),
            (Some(address), false) => format!("metrics at {scheme}://{address}/metrics"),
            (None, _) => format!("page at {}", options.address),
        };
        all[0].events().report(Level::Info, "note", text);
        servers.push(server);
    }
    Ok(servers)
}
