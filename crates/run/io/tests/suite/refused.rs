//! Behaviour when the kernel refuses io_uring, or locked memory for it: a volume is served all the
//! same, and reports this once. The refusals are real, so each runs in a process of its own.

use std::io;
use std::process::Command;
use std::sync::mpsc::channel;

use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_test_skip::skipped;
use hostftl_volume::front::{Answer, Job, JobOp, Port};
use hostftl_volume::{CreateSpec, StartOptions, check, create, open};

/// Environment variable with the resource that the child must have refused.
const REFUSE: &str = "HOSTFTL_TEST_REFUSE";
/// Prefix of the child's output when the refusal is not possible.
const SKIPPED: &str = "SKIPPED: ";

/// Not a test of its own: the process in which a resource is refused.
#[test]
fn child() {
    let refused = match std::env::var(REFUSE).as_deref() {
        Ok("io_uring") => refuse_io_uring(),
        Ok("any locked memory") => refuse_locked_memory(0),
        Ok("much locked memory") => refuse_locked_memory(1 << 20),
        _ => return,
    };
    match refused {
        Ok(()) => serve(),
        Err(error) => println!("{SKIPPED}the system does not let a process refuse itself: {error}"),
    }
}

/// Returns the report of a volume when `what` is refused and `engine` is requested: its engine and
/// its notes, a line each.
fn report(what: &str, engine: &str) -> Option<Vec<String>> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "refused::child", "--nocapture"]).env(REFUSE, what);
    let output = command.env("HOSTFTL_ENGINE", engine).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    if let Some(line) = text.lines().find(|line| line.starts_with(SKIPPED)) {
        skipped(&line[SKIPPED.len()..]);
        return None;
    }
    Some(text.lines().filter_map(|line| line.strip_prefix("report ")).map(String::from).collect())
}

#[test]
fn without_io_uring_threads_serve() {
    let Some(report) = report("io_uring", "") else { return };
    let note = "cannot use io_uring (Operation not permitted (os error 1)); using threads";
    assert_eq!(report, ["pread", note]);
}

#[test]
fn forced_io_uring_fails_if_unavailable() {
    let Some(report) = report("io_uring", "uring") else { return };
    let error = "cannot use io_uring (Operation not permitted (os error 1)); \
                 unset HOSTFTL_ENGINE to use another engine";
    assert_eq!(report, [error]);
}

const UNREGISTERED: &str = "cannot register buffers: raise `ulimit -l`";

#[test]
fn with_little_locked_memory_io_uring_serves() {
    let Some(report) = report("much locked memory", "") else { return };
    if report[0] != "io_uring" {
        return skipped(format_args!("unregistered buffers need io_uring: {report:?}"));
    }
    assert_eq!(report[1..], [UNREGISTERED]);
}

/// Some kernels count the ring itself as locked memory, and so refuse it too.
#[test]
fn an_engine_serves_without_locked_memory() {
    let Some(report) = report("any locked memory", "") else { return };
    let note = if report[0] == "io_uring" { UNREGISTERED } else { "cannot use io_uring (" };
    assert!(report.len() == 2 && report[1].starts_with(note), "{report:?}");
}

/// Creates a volume, uses it twice, and prints its engine and notes.
fn serve() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let spec = CreateSpec {
        allocate: false,
        path: folder.path().join("v.toml"),
        devices: vec![folder.path().join("d0").to_str().unwrap().into()],
        size: Some(32 << 20),
        layer: LayerConfig::new(LayerKind::Hard),
        label: String::new(),
        force: false,
    };
    if let Err(error) = create(&spec) {
        return println!("\nreport {error}");
    }
    let (running, port) = open(&spec.path).unwrap().start(&StartOptions::default()).unwrap();
    let bytes: Vec<u8> = (0..1 << 20).map(|at| (at / 7 % 256) as u8).collect();
    ask(&port, |mut data| {
        data.copy_from_slice(&bytes);
        JobOp::Write { data, fua: true }
    });
    let read = ask(&port, JobOp::Read).data.expect("a read brings its buffer back");
    assert!(read[..] == bytes[..], "other bytes were read");
    drop(read);
    println!("\nreport {}", running.status().engine);
    running.status().notes.iter().for_each(|note| println!("report {note}"));
    running.stop().unwrap();
    assert_eq!(check(&spec.path).unwrap().problems, Vec::<String>::new());
}

/// Executes one job of 1 MiB.
fn ask(port: &Port, op: impl FnOnce(hostftl_volume::front::Buffer) -> JobOp) -> Answer {
    let (reply, answers) = channel();
    let op = op(port.buffer(1 << 20));
    port.submit(Job {
        op,
        offset: 1 << 20,
        bytes: 1 << 20,
        cookie: 0,
        reply: std::sync::Arc::new(reply),
    });
    let answer = answers.recv().unwrap();
    assert_eq!(answer.result, Ok(()));
    answer
}

/// Makes `io_uring_setup` fail with EPERM in this thread and those that it starts.
fn refuse_io_uring() -> io::Result<()> {
    let rule =
        |code: u32, jump: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: jump, k };
    let number = libc::SYS_io_uring_setup as u32;
    let mut rules = [
        rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        rule(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, number),
        rule(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        rule(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
    // SAFETY: takes plain numbers, and only removes rights.
    succeeded(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
    // SAFETY: the program and its rules are alive, and the kernel copies them.
    let filtered =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program, 0, 0) };
    succeeded(filtered.into())
}

/// Limits locked memory to `bytes` bytes in this thread and those that it starts, even for root.
fn refuse_locked_memory(bytes: u64) -> io::Result<()> {
    let most = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: reads a limit that is alive.
    succeeded(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &most) }.into())?;
    /// `_LINUX_CAPABILITY_VERSION_3`, and the bit of `CAP_IPC_LOCK`.
    const VERSION: u32 = 0x2008_0522;
    const IPC_LOCK: u32 = 1 << 14;
    let header = [VERSION, 0];
    // Effective, permitted and inheritable, for the low and then the high capabilities.
    let mut sets = [[0_u32; 3]; 2];
    // SAFETY: the header and the sets have the size of this version.
    succeeded(unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) })?;
    sets[0].iter_mut().for_each(|set| *set &= !IPC_LOCK);
    // SAFETY: as above; rights are only removed.
    succeeded(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) })
}

fn succeeded(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
