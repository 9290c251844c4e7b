//! Small crates with known figures.

use super::figures::{Measured, measure};
use super::floors::{self, Floors};
use super::tree::Tree;
use super::{ratchet, show, source};

fn measure_crate(files: &[(&str, &str)]) -> Measured {
    measure(&Tree::new(files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect()))
}

fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    measure_crate(files).circles
}

#[test]
fn a_type_of_the_parent_module_makes_a_cycle() {
    let engine = ("log/mod.rs", "mod row;\nuse row::Row;\npub struct Log { row: Row }\n");
    let lib = ("lib.rs", "mod log;\n");
    let own = ("log/row.rs", "pub struct Row { at: u32 }\n");
    assert_eq!(circles(&[lib, engine, own]), Vec::<Vec<String>>::new());
    for text in [
        "use super::Log;\npub struct Row;\n",
        "use crate::log::Log;\npub struct Row;\n",
        "pub struct Row;\nimpl super::Log {}\n",
        "use crate::log;\npub struct Row;\nfn f(it: &log::Log) {}\n",
    ] {
        let found = circles(&[lib, engine, ("log/row.rs", text)]);
        assert_eq!(found, [["log/mod.rs", "log/row.rs"]], "{text}");
    }
}

#[test]
fn an_import_resolves_to_its_module() {
    let user = |path: &str| format!("use crate::{path};\npub struct B {{ params: Params }}\n");
    let (through, direct) = (user("a::Params"), user("a::params::Params"));
    let crate_with = |user| {
        [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a/mod.rs", "pub mod params;\npub use params::Params;\nuse crate::b::B;\n"),
            ("a/params.rs", "pub struct Params;\nimpl Params {}\n"),
            ("b.rs", user),
            ("c.rs", "impl crate::a::Params {}\n"),
        ]
    };
    assert_eq!(circles(&crate_with(&through)), [["a/mod.rs", "b.rs"]]);
    assert_eq!(circles(&crate_with(&direct)), Vec::<Vec<String>>::new());
    // A type is the same one, whatever path an `impl` uses.
    assert_eq!(measure_crate(&crate_with(&direct)).parts["a"].impls, (2, "Params".into()));
}

#[test]
fn a_module_inside_a_file_is_the_file() {
    let inner =
        "pub enum Bug {}\nmod switch {\n    use super::Bug;\n    fn f(_: super::Bug) {}\n}\n";
    let user = ("a.rs", "use crate::planted::Bug;\npub struct A;\n");
    let lib = ("lib.rs", "mod a;\nmod planted;\npub use a::A;\n");
    assert_eq!(circles(&[lib, user, ("planted.rs", inner)]), Vec::<Vec<String>>::new());
}

#[test]
fn tests_do_not_count() {
    let test =
        "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n    fn f() { assert!(true); }\n}\n";
    let a = format!("pub struct A;\n{test}");
    let measured = measure_crate(&[
        ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod tests;\n"),
        ("a.rs", &a),
        ("b.rs", "use crate::a::A;\npub struct B(A);\n"),
        ("tests.rs", "use crate::a::A;\n"),
    ]);
    assert_eq!(measured.circles, Vec::<Vec<String>>::new());
    assert_eq!((measured.parts["a"].lines, measured.parts["a"].asserts), (1, 0));
    assert!(!measured.parts.contains_key("tests"));
}

#[test]
fn fields_impls_and_assertions_are_counted() {
    let text = "
/// A.
pub struct A<T: Into<u8>, U> {
    #[allow(dead_code)]
    pub a: [T; 2],
    /// B, of words.
    pub(super) b: Vec<(U, u8)>,
    c: fn(u8, u8) -> u8,
}
struct B(pub u8, u8);
struct C;
impl<T: Into<u8>, U> A<T, U> {
    fn f(&self) -> impl Fn() {
        assert!(1 < 2);
        assert_eq!(1, 1, \"assert!\");
    }
}
";
    let it = source::read(text);
    let found: Vec<_> =
        it.structs.iter().map(|it| (it.name.as_str(), it.fields, it.open)).collect();
    assert_eq!(found, [("A", 3, 2), ("B", 2, 1)]);
    assert_eq!((it.impls.len(), it.asserts), (1, 2));
    let changes = "fn f(&mut self, b: &mut u8) {
    self.a = 1;
    self.a += 1;
    self.list[0] |= 2;
    *b = 3;
    self.queue.push_back(7);
    let c = self.a;
    if self.a == c && self.a <= 3 {}
    let mut d = 4;
    d = 5;
    match c {
        0 => self.a = 6,
        _ => {}
    }
}
";
    assert_eq!(source::read(changes).changes, 6);
    let one = ("log/one.rs", "use super::Log;\nimpl Log {}\n");
    let two = ("log/two.rs", "impl Drop for super::Log {}\n");
    let root = ("log/mod.rs", "pub struct Log { a: u8 }\nimpl Log {}\nimpl Clone for Other {}\n");
    let measured = measure_crate(&[("lib.rs", "mod log;\n"), root, one, two]);
    assert_eq!(measured.parts["log"].impls, (3, "Log".into()));
    assert_eq!(measured.parts["log"].hub, (2, "log/mod.rs".into()));
    let words = ("log/params.rs", "pub struct Params {\n    pub a: u8,\n}\n");
    let with_words = measure_crate(&[("lib.rs", "mod log;\n"), root, one, two, words]);
    let [with, without] = [&with_words, &measured].map(|it| &it.parts["log"]);
    assert_eq!((with.files, with.open, with.lines), (4, without.open, without.lines));
}

#[test]
fn the_table_becomes_stricter_only() {
    let of = |fields: u32, open: &str, assert: &str| {
        let more: String = (1..fields).map(|field| format!("    f{field}: u8,\n")).collect();
        let text = format!("pub struct A {{\n    {open}a: u8,\n{more}}}\nfn f() {{\n{assert}}}\n");
        measure_crate(&[("lib.rs", "mod a;\n"), ("a.rs", &text)])
    };
    let (good, same) = (of(16, "", "    assert!(true);\n"), of(15, "", "    assert!(true);\n"));
    let bad = of(17, "pub ", "");
    let table = ratchet::read(&ratchet::record(&ratchet::Table::new(), &good)).unwrap();
    assert_eq!(ratchet::worse(&table, &good), Vec::<String>::new());
    assert_eq!(ratchet::worse(&table, &same), Vec::<String>::new());
    let worse = ratchet::worse(&table, &bad);
    assert_eq!(worse.len(), 3, "{worse:?}");
    assert!(worse[0].contains("17 fields of `A`; at most 16"), "{worse:?}");
    assert_eq!(ratchet::read(&ratchet::record(&table, &bad)).unwrap(), table);
    let hand = ratchet::read("a 8 4 17 1 0").unwrap();
    assert_eq!(ratchet::worse(&hand, &bad).len(), 1, "no hand allows more fields");
    let conflict = "<<<<<<< HEAD\na 8 4 16 7 3\n=======\na 9 4 16 6 3\n>>>>>>> mine\n";
    assert!(ratchet::read(conflict).is_err());
    let merged = ratchet::read(&ratchet::merged(conflict)).unwrap();
    assert_eq!(merged, ratchet::read("a 8 4 16 6 3").unwrap());
    assert!(ratchet::read("a 1 2 3").is_err());
    assert!(ratchet::read("a 1 2 3 4 x").is_err());
}

#[test]
fn an_unlisted_part_must_meet_the_goal() {
    let fields: String = (0..17).map(|field| format!("    f{field}: u8,\n")).collect();
    let text = format!("struct A {{\n{fields}}}\n");
    let measured = measure_crate(&[("lib.rs", "mod a;\n"), ("a.rs", &text)]);
    let worse = ratchet::worse(&ratchet::Table::new(), &measured);
    assert_eq!(worse, ["a: 17 fields of `A`; at most 16"]);
}

#[test]
fn json_and_the_drawing_name_each_import() {
    let measured = measure_crate(&[
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "use crate::b::B;\npub struct A;\n"),
        ("b.rs", "use crate::a::A;\npub struct B;\n"),
    ]);
    assert!(
        show::json(&measured).contains("\"imports\":[[\"a.rs\",\"b.rs\"],[\"b.rs\",\"a.rs\"]]")
    );
    assert!(show::dot(&measured).contains("\"a.rs\" -> \"b.rs\" [color=red];"));
    assert!(show::table(&measured).contains("circle of 2: a.rs b.rs"));
}

fn measure_floors(files: &[(&str, &str)]) -> Floors {
    let files = files.iter().map(|(name, text)| ((*name).into(), (*text).into()));
    floors::measure(&Tree::new(files.collect()), "", &["top", "low"])
}

#[test]
fn an_import_from_a_floor_above_is_found() {
    let lib = ("lib.rs", "mod low;\nmod top;\npub use low::a::A;\npub use top::b::B;\n");
    let (low, top) = (("low/mod.rs", "pub mod a;\n"), ("top/mod.rs", "pub mod b;\n"));
    let b = ("top/b.rs", "use crate::low::a::A;\npub struct B(A);\n");
    let good = measure_floors(&[lib, low, top, b, ("low/a.rs", "pub struct A;\n")]);
    assert_eq!((good.upward, good.outside), (Vec::new(), Vec::new()));
    // Neither a path nor a re-export of the root hides the import, and tests do not count.
    for (text, above) in [
        ("use crate::top::b::B;\npub struct A(B);\n", "top/b.rs"),
        ("pub struct A(crate::top::b::B);\n", "top/b.rs"),
        ("use crate::B;\npub struct A(B);\n", "lib.rs"),
    ] {
        let found = measure_floors(&[lib, low, top, b, ("low/a.rs", text)]);
        assert_eq!(found.upward, [("low/a.rs".into(), above.into())], "{text}");
    }
    let test = "pub struct A;\n#[cfg(test)]\nmod tests {\n    use crate::top::b::B;\n}\n";
    assert_eq!(measure_floors(&[lib, low, top, b, ("low/a.rs", test)]).upward, []);
}

#[test]
fn of_a_folder_the_longest_name_of_a_module_is_its_floor() {
    let texts = [
        ("lib.rs", "mod log;\nmod logs;\nuse log::top::B;\n"),
        ("logs.rs", "use crate::log::top::B;\n"),
        ("log/mod.rs", "mod low;\nmod top;\n"),
        ("log/top/mod.rs", "mod base;\nuse crate::log::low::A;\npub struct B(A);\n"),
        ("log/top/base.rs", "use crate::logs;\npub struct C;\n"),
        ("log/low.rs", "use crate::log::top::base::C;\nuse crate::log::top::B;\npub struct A;\n"),
    ];
    let files = texts.map(|(name, text)| (name.into(), text.into()));
    let found = floors::measure(&Tree::new(files.into()), "log", &["top", "low", "top/base"]);
    assert_eq!(found.upward, [("log/low.rs".into(), "log/top/mod.rs".into())]);
    assert_eq!((found.outside, found.circle, found.level), (vec![], 2, (2, "log".into())));
}

#[test]
fn of_a_crate_without_floors_only_the_circle_is_measured() {
    let texts = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "use crate::b::B;\npub struct A(B);\n"),
        ("b.rs", "use crate::a::A;\npub struct B(Box<A>);\n"),
    ];
    let files = texts.map(|(name, text)| (name.into(), text.into()));
    let found = floors::measure(&Tree::new(files.into()), "", &[]);
    assert_eq!(found, Floors { circle: 2, ..Floors::default() });
    assert_eq!(show::floors("x", &found), "x: the largest circle has 2");
}

#[test]
fn modules_on_a_level_are_counted_and_each_is_on_a_floor() {
    let found = measure_floors(&[
        ("lib.rs", "mod low;\nmod stray;\nmod top;\n"),
        ("stray.rs", ""),
        ("top/mod.rs", "mod a;\n"),
        ("top/a.rs", ""),
        ("low/mod.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
        ("low/a.rs", "mod deep;\n"),
        ("low/a/deep.rs", ""),
        ("low/b.rs", ""),
        ("low/c.rs", ""),
        ("low/d/mod.rs", ""),
    ]);
    assert_eq!(found.level, (4, "low".into()));
    assert_eq!(found.outside, ["stray.rs"]);
}

#[test]
fn the_table_of_floors_becomes_stricter_only() {
    let of = |upward: usize, circle, level| Floors {
        upward: vec![("low/a.rs".into(), "top/b.rs".into()); upward],
        outside: Vec::new(),
        circle,
        level: (level, "low".into()),
    };
    let good = floors::record(&floors::Table::new(), &[("volume", of(1, 6, 13))]);
    let table = floors::read(&good).unwrap();
    assert_eq!(floors::worse(&table, "volume", &of(1, 6, 13)), Vec::<String>::new());
    let worse = floors::worse(&table, "volume", &of(2, 7, 14));
    assert_eq!(
        worse[1..],
        [
            "volume: low/a.rs imports top/b.rs from above",
            "volume: 7 files in a circle of imports; at most 6",
            "volume: 14 modules in `low`; at most 13",
        ]
    );
    let better = floors::record(&table, &[("volume", of(0, 2, 3))]);
    let better = floors::read(&better).unwrap();
    assert_eq!(floors::worse(&better, "volume", &of(0, 4, 12)), Vec::<String>::new());
    assert_eq!(floors::worse(&better, "volume", &of(1, 4, 12)).len(), 1);
    assert_eq!(
        floors::read(&floors::record(&better, &[("volume", of(9, 9, 99))])).unwrap(),
        better
    );
    assert_eq!(floors::worse(&floors::Table::new(), "new", &of(0, 5, 12)).len(), 1);
    assert!(floors::read("volume 0 4").is_err() && floors::read("volume 0 4 x").is_err());
}
