//! Hostile surroundings: terminal escape sequences, endless files, little memory, and servers that
//! never complete a reply.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::hostftl;

/// Time limit of a process that should end immediately.
const SOON: Duration = Duration::from_secs(60);

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(all).expect("it is text")
}

#[test]
fn text_of_a_volume_file_and_of_a_server_commands_no_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let volume = folder.path().join("v.toml");
    let layer = "uuid = \"67e55044-10b1-426f-9247-bb680e5fe0c8\"\nlayer = \"ha\\u001b[2Jrd\"\n\
                 devices = [\"/dev/null\"]\n";
    fs::write(&volume, layer).expect("a file");
    let output = hostftl().arg("check").arg(&volume).output().expect("hostftl starts");
    assert!(!text(&output).contains('\u{1b}') && text(&output).contains("ha\\u{1b}[2Jrd"));

    let socket = folder.path().join("s");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let refuse = move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(b"NBDMAGICIHAVEOPT\0\x03").expect("it listens");
        let mut asked = [0; 20];
        stream.read_exact(&mut asked).expect("it asks");
        let evil = b"\x1b[2J\x07\nhostftl: all is well";
        let head =
            [b"\0\x03\xe8\x89\x04\x55\x65\xa9", &asked[12..16], b"\x80\0\0\x02\0\0\0"].concat();
        let refusal = [&head, &[evil.len() as u8][..], evil].concat();
        stream.write_all(&refusal).expect("it listens");
        // The client disconnects after the refusal.
        stream.read_to_end(&mut Vec::new()).ok();
    };
    let server = thread::spawn(refuse);
    let device = format!("nbd+unix:///?socket={}", socket.display());
    let volume = folder.path().join("n.toml");
    let output = hostftl()
        .arg("create")
        .arg(&volume)
        .args(["--device", &device, "--layer", "hard"])
        .output()
        .expect("hostftl starts");
    server.join().expect("it was asked");
    let said = text(&output);
    assert!(!said.contains('\u{1b}') && said.lines().count() == 1, "{said:?}");
    assert!(said.contains("\\nhostftl: all is well"), "{said:?}");
}

#[test]
fn a_file_without_an_end_is_refused() {
    for args in [["check", "/dev/zero"], ["models", "/dev/zero"], ["targets", "/dev/zero"]] {
        let output = hostftl().args(args).output().expect("hostftl starts");
        assert!(text(&output).contains("longer than 16 MiB"), "{args:?}: {}", text(&output));
    }
}

#[test]
fn a_shortage_of_memory_is_an_error_and_no_abort() {
    let hostftl = env!("CARGO_BIN_EXE_hostftl");
    let work = "compare synth:uniform:count=10 --drive tlc:capacity=64G --layers hard --memory 8G";
    let command = format!("ulimit -v 150000; exec {hostftl} {work}");
    let output = Command::new("sh").args(["-c", &command]).output().expect("sh starts");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("bytes of memory"), "{}", text(&output));
}

/// Waits for the end of a process. Returns its exit code.
fn ended(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status.code();
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it is ours");
    panic!("it does not end");
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn ctrl_c_ends_a_create_with_a_slow_server_and_leaves_no_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let listener = UnixListener::bind(path("s")).expect("a socket");
    let device = format!("nbd+unix:///?socket={}&timeout=100", path("s").display());
    let file = path("d").display().to_string();
    let mut child = hostftl()
        .arg("create")
        .arg(path("v.toml"))
        .args(["--device", &file, "--device", &device, "--size", "64M", "--layer", "log"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("hostftl starts");
    // From here on the process waits for the server.
    let (mut stream, _) = listener.accept().expect("a client");
    stream.write_all(b"NBDMAG").expect("it listens");
    signal(&child, "-TERM");
    assert_eq!(ended(&mut child), Some(130));
    assert!(!Path::new(&file).exists() && !path("v.toml").exists());
}
