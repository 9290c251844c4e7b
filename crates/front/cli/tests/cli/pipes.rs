//! Traces on standard input: in a single pass, with options, and in the several passes of a study.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::hostftl;

/// Runs `command` with `input` on its standard input.
fn fed(command: &mut Command, input: &[u8]) -> Output {
    let pipe = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipe.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    stdin.write_all(input).expect("the program reads");
    drop(stdin);
    child.wait_with_output().expect("the program ends")
}

#[test]
fn a_trace_can_be_read_from_a_pipe() {
    let lines = (0..2000).map(|n| format!("{n};W;{};4096\n", n % 512 * 4096));
    let table = lines.collect::<String>();
    let text = ":columns=time:us,op,offset:bytes,length:bytes";
    let info = fed(hostftl().args(["trace", "info", &format!("-{text}")]), table.as_bytes());
    let info = String::from_utf8(info.stdout).unwrap();
    assert!(
        info.starts_with("/dev/stdin:columns=time:us,op,offset:bytes,length:bytes (columns)\n")
    );
    assert!(info.contains("requests   2,000: 0 reads, 2,000 writes"), "{info}");
    assert!(info.contains("  skipped    nothing\n"), "{info}");
    let own = table.replace(';', ",");
    let arguments = ["compare", "-", "--drive", "tlc:capacity=64m", "--layers", "none", "--json"];
    let rows = fed(hostftl().args(arguments), own.as_bytes());
    let errors = String::from_utf8_lossy(&rows.stderr).into_owned();
    assert!(rows.status.success(), "{errors}");
    let rows = String::from_utf8(rows.stdout).unwrap();
    assert!(rows.contains("\"requests\": 2000"), "{rows}");
}
