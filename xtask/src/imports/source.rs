//! Content of one file without tests: imports, paths, structs, `impl` blocks and assertions.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{Token, behind_generics, group_end, is_name, tokens};
use crate::tidy::mask::mask;

/// A path as written, from the root of the crate if it begins with `crate`.
pub(super) type Path = Vec<String>;

/// A struct and its fields.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Struct {
    /// Its name.
    pub name: String,
    /// Number of fields.
    pub fields: u32,
    /// Number of fields that are `pub`, `pub(super)` or similar.
    pub open: u32,
}

#[derive(Debug, Default)]
pub(super) struct Source {
    /// Items imported with `use`: local name and path.
    pub uses: BTreeMap<String, Path>,
    /// Paths of `use MODULE::*`.
    pub globs: Vec<Path>,
    /// Paths of two or more words outside `use`.
    pub paths: BTreeSet<Path>,
    /// Names of the structs, enums, traits, types and modules that the file declares.
    pub declares: BTreeSet<String>,
    /// Modules that it declares for tests only.
    pub tests: BTreeSet<String>,
    /// Structs.
    pub structs: Vec<Struct>,
    /// Types with an `impl` block.
    pub impls: BTreeSet<Path>,
    /// Number of uses of `assert!`, `assert_eq!` and `assert_ne!`.
    pub asserts: u32,
    /// Lines that assign to a field, an element or a dereferenced place, or that change a
    /// collection.
    pub changes: u32,
    /// Lines of code.
    pub lines: u32,
}

/// Parses the text of a file.
pub(super) fn read(text: &str) -> Source {
    let code = mask(text);
    let all = tokens(&code);
    let kept = without_tests(&all);
    let mut source = Source::default();
    let lines: BTreeSet<usize> = kept.iter().map(|token| token.line).collect();
    source.lines = lines.len() as u32;
    source.tests = test_modules(&all);
    source.changes = changes(&kept);
    source.walk(&kept);
    source
}

/// Returns whether the tokens from `at` on are `words`.
fn reads(tokens: &[Token<'_>], at: usize, words: &[&str]) -> bool {
    tokens.len() >= at + words.len()
        && words.iter().zip(&tokens[at..]).all(|(word, token)| token.text == *word)
}

const FOR_TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

/// Returns the tokens without items for tests only.
fn without_tests<'a>(all: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::with_capacity(all.len());
    let mut at = 0;
    while at < all.len() {
        if !reads(all, at, &FOR_TESTS) {
            kept.push(all[at]);
            at += 1;
            continue;
        }
        at += FOR_TESTS.len();
        while at < all.len() && ![";", "{"].contains(&all[at].text) {
            at = if ["(", "["].contains(&all[at].text) { group_end(all, at) + 1 } else { at + 1 };
        }
        at = if reads(all, at, &["{"]) { group_end(all, at) + 1 } else { at + 1 };
    }
    kept
}

/// Returns the names of test modules in their own files.
fn test_modules(all: &[Token<'_>]) -> BTreeSet<String> {
    let starts = (0..all.len()).filter(|&at| reads(all, at, &FOR_TESTS));
    let names = starts.map(|at| at + FOR_TESTS.len()).filter(|&at| reads(all, at, &["mod"]));
    names.filter_map(|at| all.get(at + 1)).map(|name| name.text.to_owned()).collect()
}

/// Methods that change a collection.
const CHANGERS: [&str; 15] = [
    "push",
    "push_back",
    "push_front",
    "pop",
    "pop_back",
    "pop_front",
    "insert",
    "remove",
    "swap_remove",
    "clear",
    "retain",
    "drain",
    "extend",
    "truncate",
    "fill",
];

/// Returns the number of lines that assign to a field, an element or a dereferenced place (`a.b =
/// c`, `a[b] += c`, `*a = b`), or that change a collection.
fn changes(all: &[Token<'_>]) -> u32 {
    let mut lines = BTreeSet::new();
    let ends = |token: &Token<'_>| [";", "{", "}", "=>"].contains(&token.text);
    for statement in all.split(ends).filter(|statement| !statement.is_empty()) {
        lines.extend(assigns(statement));
        let calls = statement.windows(3).filter(|it| it[0].text == "." && it[2].text == "(");
        let calls = calls.filter(|it| CHANGERS.contains(&it[1].text));
        lines.extend(calls.map(|it| it[1].line));
    }
    lines.len() as u32
}

/// Returns the line in which a statement assigns to a field, an element or a dereferenced place.
fn assigns(statement: &[Token<'_>]) -> Option<usize> {
    let at = statement.iter().position(|token| token.text == "=")?;
    let is =
        |at: usize, signs: &[&str]| statement.get(at).is_some_and(|it| signs.contains(&it.text));
    let compares = is(at + 1, &["="]) || at > 0 && is(at - 1, &["!", "<", ">", "."]);
    let declares = ["let", "const", "static", "type", "if", "while", "pub", "#", "use", "for"];
    let is_place = statement[..at].iter().any(|token| [".", "[", "*"].contains(&token.text));
    (is_place && !compares && !is(0, &declares)).then_some(statement[at].line)
}

impl Source {
    fn walk(&mut self, all: &[Token<'_>]) {
        let mut at = 0;
        // Ends of the inline modules around `at`.
        let mut around: Vec<usize> = Vec::new();
        while at < all.len() {
            around.retain(|&end| at < end);
            if reads(all, at, &["mod"]) && reads(all, at + 2, &["{"]) {
                around.push(group_end(all, at + 2));
            }
            let depth = around.len();
            let before = if at == 0 { ";" } else { all[at - 1].text };
            let item = [";", "}", "{", "]", ")", "pub", "unsafe"].contains(&before);
            let text = all[at].text;
            let next = all.get(at + 1).map_or("", |token| token.text);
            at = match text {
                "use" if item && next != "<" => self.read_use(all, at + 1, depth),
                "struct" if is_name(next) => self.read_struct(all, at + 1),
                "enum" | "trait" | "type" | "mod" | "union" if item && is_name(next) => {
                    self.declares.insert(next.to_owned());
                    at + 2
                }
                "impl" if item && before != ")" => self.read_impl(all, at + 1),
                "assert" | "assert_eq" | "assert_ne" if next == "!" => {
                    self.asserts += 1;
                    at + 2
                }
                // `pub(in super::super)` restricts visibility and imports nothing.
                "in" if reads(all, at.saturating_sub(2), &["pub", "(", "in"]) => {
                    group_end(all, at - 1)
                }
                _ if is_name(text) && next == "::" && ![".", "::"].contains(&before) => {
                    self.read_path(all, at, depth)
                }
                _ => at + 1,
            };
        }
    }

    /// Records a path in code that is nested in `depth` inline modules. Returns the position after
    /// it.
    fn read_path(&mut self, all: &[Token<'_>], from: usize, depth: usize) -> usize {
        let mut path = vec![all[from].text.to_owned()];
        let mut at = from + 1;
        while reads(all, at, &["::"]) && all.get(at + 1).is_some_and(|name| is_name(name.text)) {
            path.push(all[at + 1].text.to_owned());
            at += 2;
        }
        let path = outside(path, depth);
        if path.len() > 1 {
            self.paths.insert(path);
        }
        at
    }

    /// Records the tree of a `use`. Returns the position after its `;`.
    fn read_use(&mut self, all: &[Token<'_>], from: usize, depth: usize) -> usize {
        let end = (from..all.len()).find(|&at| all[at].text == ";").unwrap_or(all.len());
        let mut uses = BTreeMap::new();
        self.use_tree(&all[from..end], &[], &mut uses);
        let uses = uses.into_iter().map(|(name, path)| (name, outside(path, depth)));
        self.uses.extend(uses.filter(|(_, path)| !path.is_empty()));
        end + 1
    }

    /// Records one branch: `a::b`, `a::b as c`, `a::*` or `a::{…}`.
    fn use_tree(
        &mut self,
        branch: &[Token<'_>],
        above: &[String],
        into: &mut BTreeMap<String, Path>,
    ) {
        let mut path = above.to_vec();
        for (at, token) in branch.iter().enumerate() {
            match token.text {
                "::" => {}
                "{" => {
                    let inner = &branch[at + 1..group_end(branch, at)];
                    parts(inner).for_each(|part| self.use_tree(part, &path, into));
                    return;
                }
                "*" => return self.globs.push(path),
                "as" => {
                    into.insert(branch[at + 1].text.to_owned(), path);
                    return;
                }
                "self" if !path.is_empty() => {}
                name => path.push(name.to_owned()),
            }
        }
        if let Some(name) = path.last() {
            into.insert(name.clone(), path.clone());
        }
    }

    /// Records a struct after its keyword. Returns the position of its body or `;`.
    fn read_struct(&mut self, all: &[Token<'_>], from: usize) -> usize {
        let name = all[from].text.to_owned();
        self.declares.insert(name.clone());
        let open = behind_generics(all, from + 1);
        let body = (open..all.len()).find(|&at| ["{", "(", ";"].contains(&all[at].text));
        let Some(body) = body.filter(|&at| all[at].text != ";") else { return open };
        let fields: Vec<_> = parts(&all[body + 1..group_end(all, body)]).collect();
        let is_open = |field: &&&[Token<'_>]| without_attributes(field)[0].text == "pub";
        let open = fields.iter().filter(is_open).count() as u32;
        self.structs.push(Struct { name, fields: fields.len() as u32, open });
        body
    }

    /// Records the head of an `impl` after its keyword. Returns the start of its type, so that
    /// paths in it are recorded too.
    fn read_impl(&mut self, all: &[Token<'_>], from: usize) -> usize {
        let head = behind_generics(all, from);
        let end = (head..all.len()).find(|&at| ["{", "where"].contains(&all[at].text));
        let words = &all[head..end.unwrap_or(all.len())];
        let of_trait = words.iter().rposition(|token| token.text == "for");
        let names = words[of_trait.map_or(0, |at| at + 1)..].iter();
        let path = names.take_while(|token| token.text == "::" || is_name(token.text));
        let path: Path =
            path.filter(|token| token.text != "::").map(|token| token.text.to_owned()).collect();
        if !path.is_empty() {
            self.impls.insert(path);
        }
        head
    }
}

/// Converts a path in an inline module to the path as written in the file itself.
fn outside(path: Path, depth: usize) -> Path {
    let ups = path.iter().take(depth).take_while(|word| *word == "super").count();
    path[ups..].to_vec()
}

/// Returns a field without its attributes.
fn without_attributes<'s, 'a>(field: &'s [Token<'a>]) -> &'s [Token<'a>] {
    match field[0].text {
        "#" => without_attributes(&field[group_end(field, 1) + 1..]),
        _ => field,
    }
}

/// Splits a list at commas outside brackets of any kind, and omits empty parts.
fn parts<'s, 'a>(list: &'s [Token<'a>]) -> impl Iterator<Item = &'s [Token<'a>]> {
    let mut depth = 0;
    let split = list.split(move |token| {
        match token.text {
            "{" | "(" | "[" | "<" => depth += 1,
            "}" | ")" | "]" | ">" => depth -= 1,
            _ => {}
        }
        token.text == "," && depth == 0
    });
    split.filter(|part| !part.is_empty())
}
