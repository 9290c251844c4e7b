//! Properties of every page: one file, well-formed, with all texts escaped.

use hostftl_report::{Axis, Bars, Columns, Lines, Page, Table};

const NASTY: &str = "<script>\"a\" & 'b'</script>";

fn plain(value: f64) -> String {
    format!("{value:.0}")
}

fn page() -> String {
    let mut table = Table::new(&["layer", NASTY]);
    table.row([NASTY, "1"]).row(["hard", "2"]).strong();
    let bars = Bars::new(NASTY, &[NASTY, "hard"], plain)
        .series(NASTY, &[1.0, f64::NAN])
        .series("collection", &[3.0, -1.0]);
    let columns =
        Columns::new("sizes", &["4k", "8k", "16k"], plain).series("reads", &[3.0, 0.0, 9.0]);
    let lines = Lines::new("times", Axis::log(NASTY, plain), Axis::linear("share", plain))
        .series(NASTY, vec![(0.0, 1.0), (10.0, 0.5), (1e6, f64::INFINITY), (1e7, 1.0)])
        .series("none", Vec::new());
    let mut page = Page::new(NASTY);
    page.lead(NASTY).section(NASTY).paragraph(NASTY).code(NASTY).table(&table).figures([
        bars.clone().figure().note(NASTY),
        bars.stacked().figure(),
        columns.figure(),
        lines.clone().figure(),
        lines.steps().figure(),
        Bars::new("empty", &[] as &[&str], plain).figure(),
        Columns::new("empty", &[] as &[&str], plain).figure(),
    ]);
    page.finish()
}

/// Checks that every opened tag is closed in order.
fn check_nesting(html: &str) {
    let mut open = Vec::new();
    // The script may contain `<` outside tags.
    let (body, _) = html.split_once("<script>").expect("a script");
    let html = format!("{body}</body></html>");
    for piece in html.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').expect("a tag ends");
        let name = tag.split([' ', '/']).next().expect("there is a first part");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "at </{name}>"),
            None if tag.ends_with('/') || ["!DOCTYPE", "meta"].contains(&name) => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn a_page_is_well_formed_and_self_contained() {
    let html = page();
    check_nesting(&html);
    let (before, rest) = html.split_once("<script>").expect("the script that sorts");
    let (script, after) = rest.split_once("</script>").expect("it ends");
    assert_eq!(script.trim(), include_str!("../src/sort.js").trim());
    for word in ["<script", "http", "url(", "src=", "href=", "NaN", "inf"] {
        assert!(![before, after].iter().any(|it| it.contains(word)), "{word} stands in the page");
    }
    for word in ["http", "fetch", "import", "XMLHttp", "WebSocket"] {
        assert!(!script.contains(word), "{word} stands in the script");
    }
}

#[test]
fn labels_are_within_the_drawing() {
    let html = page();
    for piece in html.split(" x=\"").skip(1) {
        let x: f64 = piece.split('"').next().unwrap().parse().expect("a number");
        assert!((0.0..=440.0).contains(&x), "x = {x}");
    }
}

#[test]
fn a_legend_names_several_series_only() {
    let one = Columns::new("t", &["a"], plain).series("alone", &[1.0]);
    let several = one.clone().series("second", &[2.0]);
    let html = |columns: &Columns| Page::new("t").figures([columns.figure()]).finish();
    assert!(!html(&one).contains("<ul"));
    assert!(html(&several).contains("<ul class=\"legend\">"));
}

#[test]
#[should_panic(expected = "a value for each row")]
fn a_series_has_a_value_for_each_row() {
    let _ = Bars::new("t", &["a", "b"], plain).series("s", &[1.0]);
}
