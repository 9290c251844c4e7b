//! Byte-level tests of structured replies, contexts and TLS according to the specification.

use hostftl_nbd_proto::*;

fn offer(tls: Tls) -> Offer {
    Offer {
        name: "vol".into(),
        also: None,
        held: None,
        description: String::new(),
        bytes: 1 << 30,
        flags: flags::HAS_FLAGS,
        block: BlockSizes { min: 512, preferred: 4096, max: 1 << 20 },
        contexts: vec!["base:allocation", "hostftl:state"],
        tls,
    }
}

/// Handshake after the greeting: options go in, and the kinds of the replies come out.
struct Talk(ServerHandshake, Tls);

impl Talk {
    fn new(tls: Tls) -> Self {
        let mut server = ServerHandshake::greet(&mut Vec::new());
        let step = server.feed(&[offer(tls)], &[0, 0, 0, 3], &mut Vec::new());
        assert_eq!(step, Ok((4, Outcome::More)));
        Talk(server, tls)
    }

    fn say(&mut self, option: &ClientOption<'_>) -> (Result<Outcome, ProtoError>, Vec<u8>) {
        let (mut wire, mut out) = (Vec::new(), Vec::new());
        option.emit(&mut wire);
        let step = self.0.feed(&[offer(self.1)], &wire, &mut out);
        (step.map(|(_, outcome)| outcome), out)
    }

    /// Returns the kinds of the replies to an option that does not end the handshake.
    fn kinds(&mut self, option: &ClientOption<'_>) -> Vec<u32> {
        let (step, out) = self.say(option);
        assert_eq!(step, Ok(Outcome::More));
        frames(&out).iter().map(|frame| frame.kind).collect()
    }

    fn go(&mut self) -> Agreement {
        match self.say(&ClientOption::Go(ExportQuery { name: "", infos: vec![] })).0 {
            Ok(Outcome::Transmission(agreed)) => agreed,
            other => panic!("{other:?}"),
        }
    }
}

fn frames(mut out: &[u8]) -> Vec<ReplyFrame<'_>> {
    let mut all = Vec::new();
    while let Some((frame, used)) = ReplyFrame::parse(out).unwrap() {
        all.push(frame);
        out = &out[used..];
    }
    assert!(out.is_empty());
    all
}

fn set<'a>(queries: &[&'a str]) -> ClientOption<'a> {
    ClientOption::SetContexts(ContextQuery { name: "vol", queries: queries.to_vec() })
}

fn list<'a>(queries: &[&'a str]) -> ClientOption<'a> {
    ClientOption::ListContexts(ContextQuery { name: "", queries: queries.to_vec() })
}

#[test]
fn chunks_have_the_bytes_of_the_specification() {
    let mut wire = Vec::new();
    Chunk::Hole { offset: 0x1000, length: 0x200 }.emit(7, true, &mut wire);
    let head = [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 12];
    let content = [0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 2, 0];
    assert_eq!(wire, [&head[..], &content].concat());
    wire.clear();
    let message = "no";
    Chunk::Error { errno: Errno::Io, offset: Some(512), message }.emit(7, false, &mut wire);
    assert_eq!(wire[4..8], [0, 0, 0x80, 2]);
    assert_eq!(wire[20..], [0, 0, 0, 5, 0, 2, b'n', b'o', 0, 0, 0, 0, 0, 0, 2, 0]);
    wire.clear();
    Chunk::Status { context: 1, extents: vec![(4096, 3)] }.emit(7, true, &mut wire);
    assert_eq!(wire[6..8], [0, 5]);
    assert_eq!(wire[20..], [0, 0, 0, 1, 0, 0, 0x10, 0, 0, 0, 0, 3]);
    wire.clear();
    Chunk::Data { offset: 512, bytes: b"abcd" }.emit(9, true, &mut wire);
    assert_eq!(wire, [&data_head(9, true, 512, 4)[..], b"abcd"].concat());
}

#[test]
fn invalid_chunks_are_refused() {
    let good = ChunkHead { done: true, kind: 1, cookie: 1, length: 9 };
    let mut bytes = good.emit();
    bytes[5] |= 2;
    assert_eq!(ChunkHead::parse(&bytes), Err(Malformed::Code.into()));
    let long = ChunkHead { length: MAX_PAYLOAD + 9, ..good };
    let expected = Err(ProtoError::ChunkTooLong(MAX_PAYLOAD + 9));
    assert_eq!(ChunkHead::parse(&long.emit()), expected);
    assert!(matches!(ChunkHead::parse(&[0; 20]), Err(ProtoError::Magic { .. })));
    assert_eq!(Chunk::parse(1, &[0; 8]), Err(Malformed::Short), "data without data");
    assert_eq!(Chunk::parse(5, &[0; 4]), Err(Malformed::Short), "status without extents");
    assert_eq!(Chunk::parse(0, &[0]), Err(Malformed::Trailing));
    assert_eq!(Chunk::parse(77, &[]), Err(Malformed::Code));
}

#[test]
fn contexts_are_listed_and_chosen_after_structured_replies() {
    let mut talk = Talk::new(Tls::No);
    let invalid = 0x8000_0003;
    assert_eq!(talk.kinds(&set(&["base:allocation"])), [invalid]);
    assert_eq!(talk.kinds(&ClientOption::StructuredReply), [1]);
    assert_eq!(talk.kinds(&list(&[])), [4, 4, 1]);
    assert_eq!(talk.kinds(&list(&["hostftl:"])), [4, 1]);
    assert_eq!(talk.kinds(&list(&["other:", "hostftl"])), [1]);
    let unknown = ClientOption::ListContexts(ContextQuery { name: "no", queries: vec![] });
    assert_eq!(talk.kinds(&unknown), [0x8000_0006]);
    // A later selection replaces an earlier one, and a name space selects nothing.
    assert_eq!(talk.kinds(&set(&["base:allocation"])), [4, 1]);
    assert_eq!(talk.kinds(&set(&["hostftl:state", "base:"])), [4, 1]);
    let agreed = talk.go();
    assert!(agreed.structured);
    assert_eq!(agreed.numbers().collect::<Vec<_>>(), [2]);
}

#[test]
fn a_context_has_a_number_and_a_name() {
    let mut talk = Talk::new(Tls::No);
    talk.kinds(&ClientOption::StructuredReply);
    let (_, out) = talk.say(&set(&["hostftl:state"]));
    let reply = OptionReply::parse(frames(&out)[0]);
    assert_eq!(reply, Ok(OptionReply::Context { id: 2, name: "hostftl:state" }));
}

#[test]
fn unfragmented_reads_need_structured_replies() {
    let flags_of = |talk: &mut Talk| {
        let (_, out) = talk.say(&ClientOption::Info(ExportQuery { name: "", infos: vec![] }));
        match OptionReply::parse(frames(&out)[0]) {
            Ok(OptionReply::Info(Info::Export { flags, .. })) => flags,
            other => panic!("{other:?}"),
        }
    };
    let mut talk = Talk::new(Tls::No);
    assert_eq!(flags_of(&mut talk) & flags::SEND_DF, 0);
    talk.kinds(&ClientOption::StructuredReply);
    assert_ne!(flags_of(&mut talk) & flags::SEND_DF, 0);
}

#[test]
fn required_tls_discloses_no_exports_without_it() {
    let mut talk = Talk::new(Tls::Required);
    let required = 0x8000_0005;
    assert_eq!(talk.kinds(&ClientOption::List), [required]);
    assert_eq!(talk.kinds(&ClientOption::StructuredReply), [required]);
    let go = ClientOption::Go(ExportQuery { name: "vol", infos: vec![] });
    assert_eq!(talk.kinds(&go), [required]);
    let (step, out) = Talk::new(Tls::Required).say(&ClientOption::ExportName("vol"));
    assert_eq!((step, out.len()), (Err(ProtoError::Plain), 0));
    let (step, _) = talk.say(&ClientOption::StartTls);
    assert_eq!(step, Ok(Outcome::StartTls));
    talk.0.secured();
    assert_eq!(talk.kinds(&ClientOption::StartTls), [0x8000_0003]);
    assert!(!talk.go().structured);
}

#[test]
fn data_between_starttls_and_its_reply_is_an_attack() {
    let mut server = ServerHandshake::greet(&mut Vec::new());
    let mut wire = vec![0, 0, 0, 3];
    ClientOption::StartTls.emit(&mut wire);
    ClientOption::StructuredReply.emit(&mut wire);
    let step = server.feed(&[offer(Tls::Required)], &wire, &mut Vec::new());
    assert_eq!(step, Err(ProtoError::BeforeTls));
}

/// Returns two exports, `vol` and `other`, whose plain name is refused.
fn two() -> [Offer; 2] {
    let held = Some(HeldName { name: "other".into(), why: "it died".into() });
    let other = Offer { name: "other@2".into(), held, bytes: 1 << 20, ..offer(Tls::No) };
    [offer(Tls::No), other]
}

/// Runs a handshake with [`two`] and returns the outcome and the replies.
fn talk_of_two(options: &[ClientOption<'_>]) -> (Result<Outcome, ProtoError>, Vec<u8>) {
    let mut server = ServerHandshake::greet(&mut Vec::new());
    let mut wire = vec![0, 0, 0, 3];
    options.iter().for_each(|option| option.emit(&mut wire));
    let mut out = Vec::new();
    let step = server.feed(&two(), &wire, &mut out);
    (step.map(|(_, outcome)| outcome), out)
}

fn go(name: &str) -> ClientOption<'_> {
    ClientOption::Go(ExportQuery { name, infos: vec![] })
}

#[test]
fn several_exports_are_listed_and_selected_by_name() {
    let (_, out) = talk_of_two(&[ClientOption::List]);
    let names: Vec<_> = frames(&out)
        .into_iter()
        .filter_map(|frame| match OptionReply::parse(frame) {
            Ok(OptionReply::Server { name, .. }) => Some(name.to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["vol", "other@2"]);
    for (name, export) in [("vol", 0), ("other@2", 1)] {
        let agreed = Agreement { export, ..Agreement::default() };
        let begun = Ok(Outcome::Transmission(agreed));
        assert_eq!(talk_of_two(&[go(name)]).0, begun);
        assert_eq!(talk_of_two(&[ClientOption::ExportName(name)]).0, begun);
    }
    for (name, why) in [("", "name one"), ("other", "it died"), ("third", "no such export")] {
        let (step, out) = talk_of_two(&[go(name)]);
        assert_eq!(step, Ok(Outcome::More), "{name}");
        assert!(String::from_utf8_lossy(&out).contains(why), "{name}");
        let step = talk_of_two(&[ClientOption::ExportName(name)]).0;
        assert!(matches!(step, Err(ProtoError::UnknownExport { .. })), "{name}");
    }
}

#[test]
fn contexts_apply_to_their_export_only() {
    let query =
        |name| ClientOption::SetContexts(ContextQuery { name, queries: vec!["base:allocation"] });
    let agreed =
        |asked, begun| match talk_of_two(&[ClientOption::StructuredReply, query(asked), go(begun)])
            .0
        {
            Ok(Outcome::Transmission(agreed)) => (agreed.export, agreed.contexts),
            other => panic!("{other:?}"),
        };
    assert_eq!(agreed("other@2", "other@2"), (1, 1));
    assert_eq!(agreed("vol", "other@2"), (1, 0));
    assert_eq!(agreed("other@2", "vol"), (0, 0));
}
