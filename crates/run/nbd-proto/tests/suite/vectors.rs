//! Byte vectors written by hand from the specification, which detect a mistake common to parse and
//! emit.

use hostftl_nbd_proto::*;

fn offer() -> Offer {
    Offer {
        name: "vol".into(),
        also: None,
        held: None,
        description: "a volume".into(),
        bytes: 0x0102_0304,
        flags: flags::HAS_FLAGS | flags::SEND_FLUSH,
        block: BlockSizes { min: 512, preferred: 4096, max: 1 << 20 },
        contexts: vec!["base:allocation", "x:map"],
        tls: Tls::No,
    }
}

/// Returns the outcome of a handshake without agreements.
fn begun() -> Outcome {
    Outcome::Transmission(Agreement::default())
}

/// Joins hexadecimal text and quoted strings into bytes.
fn bytes(parts: &[&str]) -> Vec<u8> {
    let mut all = Vec::new();
    for part in parts {
        match part.strip_prefix('"') {
            Some(text) => all.extend_from_slice(text.as_bytes()),
            None => {
                let digits: String = part.split_whitespace().collect();
                for at in (0..digits.len()).step_by(2) {
                    all.push(u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
                }
            }
        }
    }
    all
}

/// Returns a handshake after the greeting and the client's flags.
fn greeted(client_flags: &str) -> ServerHandshake {
    let mut out = Vec::new();
    let mut server = ServerHandshake::greet(&mut out);
    assert_eq!(out, bytes(&["\"NBDMAGIC", "\"IHAVEOPT", "0003"]));
    out.clear();
    let step = server.feed(&[offer()], &bytes(&[client_flags]), &mut out);
    assert_eq!(step, Ok((4, Outcome::More)));
    assert!(out.is_empty());
    server
}

fn answer(server: &mut ServerHandshake, parts: &[&str]) -> (Result<Outcome, ProtoError>, Vec<u8>) {
    answer_of(&offer(), server, parts)
}

fn answer_of(
    offer: &Offer,
    server: &mut ServerHandshake,
    parts: &[&str],
) -> (Result<Outcome, ProtoError>, Vec<u8>) {
    let input = bytes(parts);
    let mut out = Vec::new();
    let step = server.feed(std::slice::from_ref(offer), &input, &mut out).map(|(used, outcome)| {
        assert_eq!(used, input.len());
        outcome
    });
    (step, out)
}

#[test]
fn go_describes_the_export_and_starts() {
    let ask = ["\"IHAVEOPT", "00000007 0000000d", "00000003", "\"vol", "0002 0001 0002"];
    let (step, out) = answer(&mut greeted("00000003"), &ask);
    assert_eq!(step, Ok(begun()));
    let head = "0003e889045565a9 00000007 00000003";
    let expected = bytes(&[
        head,
        "0000000c 0000 0000000001020304 0005",
        head,
        "0000000e 0003 00000200 00001000 00100000",
        head,
        "00000005 0001",
        "\"vol",
        head,
        "0000000a 0002",
        "\"a volume",
        "0003e889045565a9 00000007 00000001 00000000",
    ]);
    assert_eq!(out, expected);
}

#[test]
fn info_does_not_begin() {
    let ask = ["\"IHAVEOPT", "00000006 00000006", "00000000", "0000"];
    let (step, out) = answer(&mut greeted("00000001"), &ask);
    assert_eq!(step, Ok(Outcome::More));
    assert!(out.ends_with(&bytes(&["0003e889045565a9 00000006 00000001 00000000"])));
}

#[test]
fn export_name_is_answered_with_and_without_zeroes() {
    let ask = ["\"IHAVEOPT", "00000001 00000003", "\"vol"];
    let size = bytes(&["0000000001020304 0005"]);
    let (step, out) = answer(&mut greeted("00000003"), &ask);
    assert_eq!((step, &out), (Ok(begun()), &size));
    let (step, out) = answer(&mut greeted("00000001"), &ask);
    assert_eq!(step, Ok(begun()));
    assert_eq!(out, [size, vec![0; 124]].concat());
}

#[test]
fn an_unknown_export_name_disconnects() {
    let (step, out) =
        answer(&mut greeted("00000003"), &["\"IHAVEOPT", "00000001 00000002", "\"no"]);
    let (name, why) = ("no".into(), "there is no such export".into());
    assert_eq!(step, Err(ProtoError::UnknownExport { name, why }));
    assert!(out.is_empty());
}

#[test]
fn a_reserved_name_is_refused_with_a_reason() {
    let held = Some(HeldName { name: "vol".into(), why: "because".into() });
    let offer = Offer { name: "vol@2".into(), held, ..offer() };
    // INFO and GO, with the empty name and the plain one.
    for (option, name) in [("06", ""), ("07", ""), ("06", "vol"), ("07", "vol")] {
        let length = format!("000000{:02x} 000000{:02x}", name.len() + 6, name.len());
        let name = format!("\"{name}");
        let ask = ["\"IHAVEOPT", &format!("000000{option}"), &length, &name, "0000"];
        let (step, out) = answer_of(&offer, &mut greeted("00000003"), &ask);
        assert_eq!(step, Ok(Outcome::More), "{option} {name}");
        let head = format!("0003e889045565a9 000000{option} 80000002 00000007");
        assert_eq!(out, bytes(&[&head, "\"because"]));
    }
    let ask = ["\"IHAVEOPT", "00000001 00000003", "\"vol"];
    let (step, out) = answer_of(&offer, &mut greeted("00000003"), &ask);
    let (name, why) = ("vol".into(), "because".into());
    assert_eq!((step, out), (Err(ProtoError::UnknownExport { name, why }), vec![]));
    let ask = ["\"IHAVEOPT", "00000001 00000005", "\"vol@2"];
    let (step, _) = answer_of(&offer, &mut greeted("00000003"), &ask);
    assert_eq!(step, Ok(begun()));
}

#[test]
fn an_export_may_have_two_names() {
    let offer = Offer { also: Some("vol@2".into()), ..offer() };
    for (length, name) in [("00", "\""), ("03", "\"vol"), ("05", "\"vol@2")] {
        let ask = ["\"IHAVEOPT", &format!("00000001 000000{length}"), name];
        let (step, _) = answer_of(&offer, &mut greeted("00000003"), &ask);
        assert_eq!(step, Ok(begun()), "{name}");
    }
}

#[test]
fn list_names_the_export() {
    let (step, out) = answer(&mut greeted("00000003"), &["\"IHAVEOPT", "00000003 00000000"]);
    assert_eq!(step, Ok(Outcome::More));
    let expected = bytes(&[
        "0003e889045565a9 00000003 00000002 0000000f 00000003",
        "\"vol",
        "\"a volume",
        "0003e889045565a9 00000003 00000001 00000000",
    ]);
    assert_eq!(out, expected);
}

#[test]
fn abort_is_acknowledged() {
    let (step, out) = answer(&mut greeted("00000003"), &["\"IHAVEOPT", "00000002 00000000"]);
    assert_eq!(step, Ok(Outcome::Aborted));
    assert_eq!(out, bytes(&["0003e889045565a9 00000002 00000001 00000000"]));
}

/// Returns the code of the only reply in `out`.
fn code(out: &[u8]) -> u32 {
    let (frame, used) = ReplyFrame::parse(out).unwrap().unwrap();
    assert_eq!(used, out.len());
    frame.kind
}

#[test]
fn refusals_keep_the_handshake_open() {
    let mut server = greeted("00000003");
    let cases: [(&[&str], u32); 6] = [
        // Start TLS, and an unknown option.
        (&["\"IHAVEOPT", "00000005 00000000"], 0x8000_0001),
        (&["\"IHAVEOPT", "0000cafe 00000002 0000"], 0x8000_0001),
        // An unknown export; a name longer than its option; a list with data; excess bytes.
        (&["\"IHAVEOPT", "00000007 00000008 00000002", "\"no", "0000"], 0x8000_0006),
        (&["\"IHAVEOPT", "00000006 00000006 00000003 0000"], 0x8000_0003),
        (&["\"IHAVEOPT", "00000003 00000001 00"], 0x8000_0003),
        (&["\"IHAVEOPT", "00000006 00000007 00000000 0000 00"], 0x8000_0003),
    ];
    for (ask, expected) in cases {
        let (step, out) = answer(&mut server, ask);
        assert_eq!((step, code(&out)), (Ok(Outcome::More), expected), "{ask:?}");
    }
    let (step, _) = answer(&mut server, &["\"IHAVEOPT", "00000002 00000000"]);
    assert_eq!(step, Ok(Outcome::Aborted));
}

#[test]
fn protocol_violations_are_distinguished() {
    let mut out = Vec::new();
    let mut server = ServerHandshake::greet(&mut out);
    let step = server.feed(&[offer()], &bytes(&["00000004"]), &mut out);
    assert_eq!(step, Err(ProtoError::ClientFlags(4)));
    let (step, _) = answer(&mut greeted("00000003"), &["\"GET / HTTP/1.1"]);
    assert!(matches!(step, Err(ProtoError::Magic { .. })), "{step:?}");
    let (step, _) = answer(&mut greeted("00000003"), &["\"IHAVEOPT", "00000007 00002001"]);
    assert_eq!(step, Err(ProtoError::OptionTooLong { option: 7, length: 0x2001 }));
}

#[test]
fn a_client_can_not_negotiate_for_ever() {
    let mut server = greeted("00000003");
    for _ in 0..MAX_OPTIONS {
        let (step, _) = answer(&mut server, &["\"IHAVEOPT", "00000003 00000000"]);
        assert_eq!(step, Ok(Outcome::More));
    }
    let (step, _) = answer(&mut server, &["\"IHAVEOPT", "00000003 00000000"]);
    assert_eq!(step, Err(ProtoError::TooManyOptions));
}

#[test]
fn bytes_after_the_handshake_are_not_consumed() {
    let mut server = greeted("00000003");
    let input = bytes(&["\"IHAVEOPT", "00000007 00000006 00000000 0000", "25609513"]);
    let step = server.feed(&[offer()], &input, &mut Vec::new());
    assert_eq!(step, Ok((input.len() - 4, begun())));
}

#[test]
fn requests_and_replies_have_the_bytes_of_the_specification() {
    let wire = bytes(&["25609513 0001 0001 0123456789abcdef 0000000000002000 00001000"]);
    let request = Request {
        flags: flags::CMD_FUA,
        command: Command::Write,
        cookie: 0x0123_4567_89ab_cdef,
        offset: 8192,
        length: 4096,
    };
    assert_eq!(request.emit().as_slice(), wire);
    assert_eq!(Request::parse(wire.as_slice().try_into().unwrap()), Ok(request));
    for (command, code) in [
        (Command::Read, 0),
        (Command::Disconnect, 2),
        (Command::Flush, 3),
        (Command::Trim, 4),
        (Command::Cache, 5),
        (Command::WriteZeroes, 6),
        (Command::BlockStatus, 7),
        (Command::Other(8), 8),
    ] {
        assert_eq!(Request { command, ..request }.emit()[6..8], [0, code]);
    }
    let reply = SimpleReply { cookie: 1, result: Err(Errno::NoSpace) };
    assert_eq!(reply.emit().as_slice(), bytes(&["67446698 0000001c 0000000000000001"]));
    for (errno, code) in [
        (Errno::Permission, 1),
        (Errno::Io, 5),
        (Errno::Memory, 12),
        (Errno::Invalid, 22),
        (Errno::Overflow, 75),
        (Errno::Unsupported, 95),
        (Errno::Shutdown, 108),
    ] {
        assert_eq!(errno.code(), code);
    }
}

#[test]
fn a_request_with_the_wrong_magic_or_too_long_a_payload_is_refused() {
    let mut wire = bytes(&["25609513 0000 0001 0000000000000001 0000000000000000 02000001"]);
    let parse = |wire: &[u8]| Request::parse(wire.try_into().unwrap());
    assert_eq!(parse(&wire), Err(ProtoError::WriteTooLong(MAX_PAYLOAD + 1)));
    wire[7] = 0;
    assert!(parse(&wire).is_ok(), "a long read has no payload, so it can be answered");
    wire[0] = 0;
    assert!(matches!(parse(&wire), Err(ProtoError::Magic { .. })));
    let reply = SimpleReply::parse(&[0; SIMPLE_REPLY_BYTES]);
    assert!(matches!(reply, Err(ProtoError::Magic { .. })));
}

#[test]
fn a_client_refuses_an_old_server() {
    let mut client = ClientHandshake::new("");
    let greeting = bytes(&["\"NBDMAGIC", "\"IHAVEOPT", "0002"]);
    let step = client.feed(&greeting, &mut Vec::new());
    assert_eq!(step, Err(ProtoError::NotFixedNewstyle(2)));
    let greeting = bytes(&["\"NBDMAGIC", "0000420281861253", "0000"]);
    let step = ClientHandshake::new("").feed(&greeting, &mut Vec::new());
    assert!(matches!(step, Err(ProtoError::Magic { .. })), "{step:?}");
}
