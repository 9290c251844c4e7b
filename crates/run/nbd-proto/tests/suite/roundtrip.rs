//! Emitted messages parse to the same values, in fragments of any size, and no input makes a parser
//! panic.

use hostftl_nbd_proto::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn errno() -> impl Strategy<Value = Errno> {
    use Errno::*;
    let known = vec![Permission, Io, Memory, Invalid, NoSpace, Overflow, Unsupported, Shutdown];
    prop_oneof![proptest::sample::select(known), (200u32..).prop_map(Other)]
}

fn command() -> impl Strategy<Value = Command> {
    use Command::*;
    let known = vec![Read, Write, Disconnect, Flush, Trim, Cache, WriteZeroes, BlockStatus];
    prop_oneof![proptest::sample::select(known), (8u16..).prop_map(Other)]
}

proptest! {
    #[test]
    fn requests(
        flags: u16,
        command in command(),
        cookie: u64,
        offset: u64,
        length in 0..=MAX_PAYLOAD,
    ) {
        let request = Request { flags, command, cookie, offset, length };
        prop_assert_eq!(Request::parse(&request.emit()), Ok(request));
    }

    #[test]
    fn simple_replies(cookie: u64, error in proptest::option::of(errno())) {
        let reply = SimpleReply { cookie, result: error.map_or(Ok(()), Err) };
        prop_assert_eq!(SimpleReply::parse(&reply.emit()), Ok(reply));
    }

    #[test]
    fn chunks(
        kind in 0..6,
        cookie: u64,
        done: bool,
        offset: u64,
        word: u32,
        data in vec(any::<u8>(), 1..60),
        errno in errno(),
        message in "\\PC{0,40}",
        extents in vec(any::<(u32, u32)>(), 1..9),
    ) {
        let chunk = match kind {
            0 => Chunk::None,
            1 => Chunk::Data { offset, bytes: &data },
            2 => Chunk::Hole { offset, length: word },
            3 => Chunk::Status { context: word, extents },
            4 => Chunk::Error { errno, offset: None, message: &message },
            _ => Chunk::Error { errno, offset: Some(offset), message: &message },
        };
        let mut wire = Vec::new();
        chunk.emit(cookie, done, &mut wire);
        let (head, content) = wire.split_first_chunk::<CHUNK_BYTES>().unwrap();
        let (kind, length) = (chunk.kind(), content.len() as u32);
        let expected = ChunkHead { done, kind, cookie, length };
        prop_assert_eq!(ChunkHead::parse(head), Ok(expected));
        prop_assert_eq!(Chunk::parse(kind, content), Ok(chunk));
        for cut in 1..content.len() {
            // Data may end at any byte, and a status after any extent.
            let whole = kind == 1 && cut > 8 || kind == 5 && cut % 8 == 4 && cut > 4;
            prop_assert_eq!(Chunk::parse(kind, &content[..cut]).is_ok(), whole, "cut at {}", cut);
        }
    }

    #[test]
    fn options(
        kind in 0..10,
        name in "\\PC{0,40}",
        infos in vec(any::<u16>(), 0..5),
        data in vec(any::<u8>(), 0..50),
    ) {
        let option = match kind {
            0 => ClientOption::ExportName(&name),
            1 => ClientOption::Abort,
            2 => ClientOption::List,
            3 => ClientOption::Info(ExportQuery { name: &name, infos }),
            4 => ClientOption::Go(ExportQuery { name: &name, infos }),
            5 => ClientOption::StartTls,
            6 => ClientOption::StructuredReply,
            7 => ClientOption::ListContexts(ContextQuery { name: &name, queries: vec![&name; 3] }),
            8 => {
                let queries = vec![&*name; infos.len()];
                ClientOption::SetContexts(ContextQuery { name: "", queries })
            }
            _ => ClientOption::Other(OptionFrame { option: 0x4000, data: &data }),
        };
        let mut wire = Vec::new();
        option.emit(&mut wire);
        for cut in 0..wire.len() {
            prop_assert_eq!(OptionFrame::parse(&wire[..cut]), Ok(None));
        }
        let (frame, used) = OptionFrame::parse(&wire).unwrap().unwrap();
        prop_assert_eq!(used, wire.len());
        prop_assert_eq!(ClientOption::parse(frame), Ok(option));
    }

    #[test]
    fn replies_to_options(
        kind in 0..9,
        option: u32,
        number: u64,
        short: u16,
        name in "\\PC{0,40}",
        about in "\\PC{0,40}",
    ) {
        let word = number as u32;
        let reply = match kind {
            0 => OptionReply::Ack,
            1 => OptionReply::Server { name: &name, about: &about },
            2 => OptionReply::Info(Info::Export { bytes: number, flags: short }),
            3 => OptionReply::Info(Info::Name(&name)),
            4 => OptionReply::Info(Info::Description(&about)),
            5 => OptionReply::Info(Info::BlockSize(BlockSizes {
                min: 512,
                preferred: word,
                max: word / 2,
            })),
            7 => OptionReply::Context { id: word, name: &name },
            6 => OptionReply::Refused { why: Refusal::Policy, message: &about },
            _ => OptionReply::Info(Info::Other { kind: short | 8, data: about.as_bytes() }),
        };
        let mut wire = Vec::new();
        reply.emit(option, &mut wire);
        for cut in 0..wire.len() {
            prop_assert_eq!(ReplyFrame::parse(&wire[..cut]), Ok(None));
        }
        let (frame, used) = ReplyFrame::parse(&wire).unwrap().unwrap();
        prop_assert_eq!((used, frame.option), (wire.len(), option));
        prop_assert_eq!(OptionReply::parse(frame), Ok(reply));
    }

    /// Server and client communicate through a pipe that delivers `grain` bytes at a time.
    #[test]
    fn handshakes_meet_in_any_pieces(
        grain in 1usize..60,
        bytes: u64,
        flags in any::<u16>(),
        name in "[a-z]{1,9}",
        default: bool,
        structured: bool,
        wants: bool,
        secure: bool,
    ) {
        let block = BlockSizes { min: 512, preferred: 4096, max: 1 << 20 };
        let description = "a volume".to_owned();
        let offer = Offer {
            name: name.clone(),
            also: None,
            held: None,
            description,
            bytes,
            flags,
            block,
            contexts: vec!["base:allocation", "x:map"],
            tls: if secure { Tls::Required } else { Tls::No },
        };
        let mut client = ClientHandshake::new(if default { "" } else { &name });
        if structured {
            client = client.structured(if wants { &["x:map", "y:map"] } else { &[] });
        }
        if secure {
            client = client.secure();
        }
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        let (mut at_client, mut at_server) = (Vec::new(), Vec::new());
        let mut server = ServerHandshake::greet(&mut to_client);
        let (mut begun, mut agreed) = (false, false);
        let found = loop {
            let step = grain.min(to_client.len());
            at_client.extend(to_client.drain(..step));
            let (used, outcome) = client.feed(&at_client, &mut to_server).unwrap();
            at_client.drain(..used);
            match outcome {
                ClientOutcome::Transmission(found) => break found,
                ClientOutcome::Secure => {
                    prop_assert!(agreed && to_client.is_empty() && to_server.is_empty());
                    server.secured();
                    continue;
                }
                ClientOutcome::More => {}
            }
            let step = grain.min(to_server.len());
            at_server.extend(to_server.drain(..step));
            let offers = std::slice::from_ref(&offer);
            let (used, outcome) = server.feed(offers, &at_server, &mut to_client).unwrap();
            at_server.drain(..used);
            begun |= matches!(outcome, Outcome::Transmission(_));
            agreed |= outcome == Outcome::StartTls;
        };
        prop_assert!(begun && agreed == secure && to_client.is_empty() && at_client.is_empty());
        let Offer { name, description, .. } = offer;
        let (block, name, description) = (Some(block), Some(name), Some(description));
        let flags = flags | if structured { hostftl_nbd_proto::flags::SEND_DF } else { 0 };
        let contexts = if structured && wants { vec![(2, "x:map".into())] } else { Vec::new() };
        let expected =
            Negotiated { bytes, flags, block, name, description, structured, contexts };
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn arbitrary_input_does_not_panic(noise in vec(any::<u8>(), 0..300), kind: u32) {
        let block = BlockSizes { min: 512, preferred: 4096, max: 1 << 20 };
        let (name, description) = ("vol".to_owned(), String::new());
        let offer = Offer {
            name,
            also: None,
            held: None,
            description,
            bytes: 1,
            flags: 1,
            block,
            contexts: vec!["base:allocation"],
            tls: Tls::No,
        };
        let mut out = Vec::new();
        let mut server = ServerHandshake::greet(&mut out);
        let mut wire = vec![0, 0, 0, 3];
        ClientOption::Other(OptionFrame { option: kind % 12, data: &noise }).emit(&mut wire);
        wire.extend_from_slice(&noise);
        let _ = server.feed(std::slice::from_ref(&offer), &wire, &mut out);
        let mut wire = out[..18].to_vec();
        wire.extend_from_slice(b"\x00\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07");
        wire.extend_from_slice(&(kind % 5).to_be_bytes());
        wire.extend_from_slice(&(noise.len() as u32).to_be_bytes());
        wire.extend_from_slice(&noise);
        let _ = ClientHandshake::new("").feed(&wire, &mut Vec::new());
    }
}
