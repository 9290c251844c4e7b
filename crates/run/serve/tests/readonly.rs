//! Volume that is served without writing to its devices, as clients see it.

mod client;

use client::{Client, send};
use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_nbd_proto::{Command, Errno, Request, flags};
use hostftl_serve::{Options, Server};
use hostftl_volume::{CreateSpec, OpenOptions, StartOptions, create, open_with};

#[test]
fn read_only_is_advertised_and_writes_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, sock) = (folder.path().join("v.toml"), folder.path().join("v.sock"));
    let spec = CreateSpec {
        allocate: false,
        path: path.clone(),
        devices: vec![folder.path().join("d0").display().to_string()],
        size: Some(64 << 20),
        layer: LayerConfig::new(LayerKind::Hard),
        label: String::new(),
        force: false,
    };
    create(&spec).expect("a volume");
    let volume = open_with(&path, &OpenOptions::read_only()).expect("it opens");
    let (running, port) = volume.start(&StartOptions::default()).expect("it starts");
    let address = format!("unix:{}", sock.display()).parse().expect("an address");
    let server = Server::bind(Options::new(address, port)).expect("a server");
    let stopper = server.stopper();
    let thread = std::thread::spawn(move || server.run(&mut Vec::new()).expect("a clean end"));

    let mut client = Client::connect(&sock, "v").expect("a server");
    let offered = client.export.flags;
    assert!(offered & flags::READ_ONLY != 0 && offered & flags::SEND_FLUSH != 0);
    let changes = flags::SEND_TRIM | flags::SEND_WRITE_ZEROES | flags::SEND_FUA;
    assert_eq!(offered & changes, 0, "nothing is offered that is refused");
    let mut ask = |command, length: u32, data: &[u8]| {
        let request = Request { flags: 0, command, cookie: 7, offset: 0, length };
        send(&client.stream, request, data).expect("sent");
        let back = if command == Command::Read { length as usize } else { 0 };
        client.reply(|_| back).expect("a reply").1
    };
    assert_eq!(ask(Command::Write, 4096, &[7; 4096]), Err(Errno::Permission));
    assert_eq!(ask(Command::Trim, 4096, &[]), Err(Errno::Permission));
    assert_eq!(ask(Command::WriteZeroes, 4096, &[]), Err(Errno::Permission));
    assert_eq!(ask(Command::Flush, 0, &[]), Ok(Vec::new()));
    assert_eq!(ask(Command::Read, 4096, &[]), Ok(vec![0; 4096]));
    stopper.stop();
    thread.join().expect("no panic");
    running.stop().expect("a clean end");
}
