//! The page of served volumes, as browsers and hostile clients use it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use hostftl_layers::LayerConfig;
use hostftl_serve::{Address, HttpOptions, HttpServer};
use hostftl_volume::{CreateSpec, Level, Running, StartOptions, StatusHandle, create, open};

/// Label that would run a script if it were inserted as HTML.
const LABEL: &str = "<script>alert(1)</script>";

/// Time after which a connection without progress must be closed.
const LATEST: Duration = Duration::from_secs(15);

fn start() -> Running {
    let folder = tempfile::tempdir().unwrap();
    let spec = CreateSpec {
        allocate: false,
        path: folder.path().join("v.toml"),
        devices: vec!["mem:64M".into()],
        size: None,
        layer: LayerConfig::parse("hard").unwrap(),
        label: LABEL.into(),
        force: false,
    };
    create(&spec).unwrap();
    open(&spec.path).unwrap().start(&StartOptions::default()).unwrap().0
}

fn serve(volumes: Vec<StatusHandle>) -> (HttpServer, SocketAddr) {
    let address = Address::Tcp("127.0.0.1:0".parse().unwrap());
    let server =
        HttpServer::serve(&HttpOptions { address, page: true, tls: None }, volumes).unwrap();
    let address = server.address().unwrap();
    (server, address)
}

fn send(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Returns the head and the body of the response to a request.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut answer = String::new();
    send(address, request).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.into(), body.into())
}

/// Reads from a stream until `wanted` was received.
fn await_text(stream: &mut impl Read, wanted: &str) -> String {
    let mut received = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&received).into_owned();
        if text.contains(wanted) {
            return text;
        }
        let mut some = [0; 4096];
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "no {wanted} in {text}");
        received.extend_from_slice(&some[..count]);
    }
}

/// Returns whether the server has closed the connection within [`LATEST`].
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(LATEST)).unwrap();
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            }
        }
    }
}

#[test]
fn the_page_is_static_and_its_data_is_json() {
    let running = start();
    let (server, address) = serve(vec![running.status_handle()]);
    let (head, page) = ask(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let policy = "content-security-policy: default-src 'none'; script-src 'sha256-";
    assert!(head.contains(policy) && !head.contains("unsafe"), "{head}");
    for header in ["x-content-type-options: nosniff", "cross-origin-resource-policy: same-origin"] {
        assert!(head.contains(header), "{head}");
    }
    assert!(!page.contains("alert(1)"), "the page has no data");
    for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
        assert!(!page.contains(way), "data must be inserted as text, not by {way}");
    }
    for other in ["http://", "https://", "url(", "@import"] {
        assert!(!page.contains(other), "the page must not refer to other servers: {other}");
    }
    let (head, body) = ask(address, "GET /status.json HTTP/1.1\r\n\r\n");
    assert!(head.contains("content-type: application/json"), "{head}");
    let all: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(all[0]["label"], LABEL);
    assert_eq!(all[0]["state"], "online");
    assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").1.contains("hostftl_degraded"));
    drop(server);
    assert!(TcpStream::connect(address).is_err(), "it listens no more");
    running.stop().unwrap();
}

#[test]
fn the_stream_sends_the_status_each_second_and_new_events_once() {
    let running = start();
    running.events().report(Level::Info, "note", "before the client");
    let (_server, address) = serve(vec![running.status_handle()]);
    let mut stream = send(address, "GET /stream HTTP/1.1\r\n\r\n");
    let text = await_text(&mut stream, "before the client");
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    await_text(&mut stream, "\"status\":");
    running.events().report(Level::Warning, "note", "while it is connected");
    let text = await_text(&mut stream, "while it is connected");
    assert!(!text.contains("before the client"), "{text}");
    await_text(&mut stream, "\"status\":");
    let next = await_text(&mut stream, "\n\n");
    assert!(!next.contains("while it is connected"), "{next}");
    running.stop().unwrap();
}

#[test]
fn wrong_requests_are_refused() {
    let (_server, address) = serve(Vec::new());
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: x\r\n".repeat(200));
    for (request, status) in [
        ("GET /etc/passwd HTTP/1.1\r\n\r\n", "404"),
        ("GET /../metrics HTTP/1.1\r\n\r\n", "404"),
        ("PUT / HTTP/1.1\r\n\r\n", "405"),
        ("POST /stream HTTP/1.1\r\nContent-Length: 9\r\n\r\n", "405"),
        ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "421"),
        ("GET /status.json HTTP/1.1\r\nHost: 127.0.0.1.example.org:80\r\n\r\n", "421"),
        (&many, "431"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let (head, _) = ask(address, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {head}");
    }
    // The server may reset the connection before the client has read the response.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(long.as_bytes()).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[test]
fn idle_and_slow_clients_are_disconnected() {
    let (_server, address) = serve(Vec::new());
    let begun = Instant::now();
    let idle = TcpStream::connect(address).unwrap();
    let slow = TcpStream::connect(address).unwrap();
    let mut writer = slow.try_clone().unwrap();
    // One byte at a time never completes the head.
    let drip = thread::spawn(move || {
        while begun.elapsed() < LATEST && writer.write_all(b"G").is_ok() {
            thread::sleep(Duration::from_millis(200));
        }
    });
    assert!(is_closed(&idle) && is_closed(&slow));
    assert!(begun.elapsed() < LATEST);
    drip.join().unwrap();
}

#[test]
fn a_stream_that_is_not_read_is_closed_and_another_continues() {
    let running = start();
    // The first update is longer than the buffers of the sockets.
    let text = "x".repeat(900);
    (0..100).for_each(|_| running.events().report(Level::Info, "note", text.as_str()));
    let (_server, address) = serve(vec![running.status_handle(); 100]);
    let ask = || send(address, "GET /stream HTTP/1.1\r\n\r\n");
    let (mut unread, mut read) = (ask(), ask());
    let mut buffer = vec![0; 1 << 20];
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(12) {
        assert!(read.read(&mut buffer).unwrap() > 0, "a client that reads is not closed");
    }
    let begun = Instant::now();
    let is_closed = loop {
        match unread.read(&mut buffer) {
            Ok(0) | Err(_) => break true,
            Ok(_) if begun.elapsed() > Duration::from_secs(5) => break false,
            Ok(_) => {}
        }
    };
    assert!(is_closed, "it still receives updates");
    running.stop().unwrap();
}

#[test]
fn a_flood_does_not_keep_others_out() {
    let running = start();
    let (_server, address) = serve(vec![running.status_handle()]);
    let mut page = send(address, "GET /stream HTTP/1.1\r\n\r\n");
    await_text(&mut page, "\"status\":");
    let idle: Vec<_> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
    let (head, _) = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(is_closed(&idle[0]), "the oldest idle connection is closed");
    // The open page is not displaced by connections without a request.
    await_text(&mut page, "\n\n");
    await_text(&mut page, "\"status\":");
    // Only further streams displace it.
    let open = |_| send(address, "GET /stream HTTP/1.1\r\n\r\n");
    let mut pages: Vec<_> = (0..16).map(open).collect();
    pages.iter_mut().for_each(|it| drop(await_text(it, "\"status\":")));
    assert!(is_closed(&page), "the oldest stream is closed");
    running.stop().unwrap();
}

#[test]
fn the_page_is_served_on_a_unix_socket_whose_name_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.sock");
    let options = HttpOptions { address: Address::Unix(path.clone()), page: true, tls: None };
    let server = HttpServer::serve(&options, Vec::new()).unwrap();
    assert_eq!(server.address(), None);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /status.json HTTP/1.1\r\nHost: any\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("[]"), "{answer}");
    drop(server);
    assert!(!path.exists());
}
