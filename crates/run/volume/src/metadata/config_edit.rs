//! Edits a volume file without changing the owner's comments, order and blank lines.

use toml_edit::{Array, DocumentMut, Item, RawString, TableLike, Value};

/// Returns the text `old` with the values of the text `new`; `new` itself if `old` is not TOML.
pub(crate) fn with_values(old: &str, new: &str) -> String {
    let (Ok(mut document), Ok(values)) = (old.parse::<DocumentMut>(), new.parse::<DocumentMut>())
    else {
        return new.into();
    };
    take_table(document.as_table_mut(), values.as_table());
    document.to_string()
}

/// Gives a table the keys and values of another.
fn take_table(table: &mut dyn TableLike, values: &dyn TableLike) {
    let gone: Vec<String> = table
        .iter()
        .map(|(key, _)| key.to_owned())
        .filter(|key| !values.contains_key(key))
        .collect();
    gone.iter().for_each(|key| drop(table.remove(key)));
    for (key, value) in values.iter() {
        match table.get_mut(key) {
            Some(known) => take_item(known, value),
            None => drop(table.insert(key, value.clone())),
        }
    }
}

fn take_item(item: &mut Item, new: &Item) {
    if let (Some(table), Some(values)) = (item.as_table_like_mut(), new.as_table_like()) {
        return take_table(table, values);
    }
    match (item.as_value_mut(), new.as_value()) {
        (Some(Value::Array(array)), Some(Value::Array(values))) => take_array(array, values),
        (Some(value), Some(new)) => take_value(value, new),
        _ => *item = new.clone(),
    }
}

fn take_array(array: &mut Array, values: &Array) {
    reorder(array, values);
    while array.len() > values.len() {
        array.remove(array.len() - 1);
    }
    for (index, new) in values.iter().enumerate() {
        match array.get_mut(index) {
            Some(value) => take_value(value, new),
            None => array.push(new.clone().decorated(" ", "")),
        }
    }
}

/// Reorders the values of an array that are also among the new ones. Each keeps its comments: those
/// on lines above it, and the one after it on its line.
fn reorder(array: &mut Array, values: &Array) {
    let plain = |value: &Value| value.clone().decorated("", "").to_string();
    let olds: Vec<String> = array.iter().map(plain).collect();
    let added: Vec<String> = values.iter().map(plain).collect();
    let mut order: Vec<usize> = Vec::new();
    for new in &added {
        // `missing` may occur several times, so each old value is used once.
        let at = (0..olds.len()).find(|at| olds[*at] == *new && !order.contains(at));
        order.extend(at);
    }
    // Only a permutation is reordered; otherwise values are changed in their positions.
    if order.len() != olds.len() || order.is_sorted() {
        return;
    }
    let text = |raw: Option<&RawString>| raw.and_then(RawString::as_str).unwrap_or("").to_owned();
    // The text between two values starts with the comment of the first.
    let split = |text: String| match text.find('\n') {
        Some(end) => (text[..end].to_owned(), text[end..].to_owned()),
        None => (String::new(), text),
    };
    let mut parts: Vec<(String, String)> =
        array.iter().map(|value| split(text(value.decor().prefix()))).collect();
    parts.push(split(array.trailing().as_str().unwrap_or("").to_owned()));
    if parts.iter().all(|(_, rest)| !rest.contains('\n')) {
        return; // On one line the spacing of each position is kept.
    }
    let old: Vec<Value> = array.iter().cloned().collect();
    let mut behind = parts[0].0.clone();
    for (at, from) in order.into_iter().enumerate() {
        let suffix = text(old[from].decor().suffix());
        let prefix = format!("{behind}{}", parts[from].1);
        array.replace_formatted(at, old[from].clone().decorated(prefix, suffix));
        behind.clone_from(&parts[from + 1].0);
    }
    let last = parts[old.len()].1.clone();
    array.set_trailing(format!("{behind}{last}"));
}

/// Changes a value that differs; the whitespace and comments around it are preserved.
fn take_value(value: &mut Value, new: &Value) {
    let plain = |value: &Value| value.clone().decorated("", "").to_string();
    // Comments are part of the decoration, so values are compared without it.
    if plain(value) != plain(new) {
        let around = value.decor().clone();
        *value = new.clone();
        *value.decor_mut() = around;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "\
# The database's disk.
uuid = \"1\"  # never change
layer = \"log\"

devices = [
    \"/dev/a\", # left bay
    \"/dev/b\", # right bay
]

[deadlines]
# It is slow to wake.
\"/dev/b\" = 300
";

    #[test]
    fn changed_values_preserve_comments_and_order() {
        let new = "uuid = \"1\"\nlabel = \"db\"\nlayer = \"log\"\ndevices = [\"/dev/a\", \
                   \"/dev/c\"]\n\n[deadlines]\n\"/dev/b\" = 300\n";
        let wanted = OLD
            .replace("\"/dev/b\", # right", "\"/dev/c\", # right")
            .replace("\n]\n\n", "\n]\nlabel = \"db\"\n\n");
        assert_eq!(with_values(OLD, new), wanted);
    }

    #[test]
    fn comments_move_with_reordered_devices() {
        let order = |text: &str| with_values(OLD, &text.replace("log\"", "log\"\n"));
        let turned = order(
            "uuid = \"1\"\nlayer = \"log\"\ndevices = [\"/dev/b\", \"/dev/a\"]\n\
             [deadlines]\n\"/dev/b\" = 300\n",
        );
        let wanted = "    \"/dev/b\", # right bay\n    \"/dev/a\", # left bay\n]";
        assert!(turned.contains(wanted), "{turned}");
        let one_line = "devices = [\"/a\", \"/b\", \"/c\"] # all\n";
        let turned = with_values(one_line, "devices = [\"/c\", \"/a\", \"/b\"]\n");
        assert_eq!(turned, "devices = [\"/c\", \"/a\", \"/b\"] # all\n");
    }

    #[test]
    fn removed_keys_disappear_and_others_are_unchanged() {
        let new = "uuid = \"1\"\nlayer = \"log\"\ndevices = [\"/dev/a\"]\n";
        let text = with_values(OLD, new);
        assert!(
            text.starts_with("# The database's disk.\nuuid = \"1\"  # never change\n"),
            "{text}"
        );
        assert!(text.contains("\"/dev/a\"") && !text.contains("/dev/b"), "{text}");
        assert_eq!(with_values(OLD, OLD), OLD);
        assert_eq!(with_values("no toml [", new), new);
    }
}
