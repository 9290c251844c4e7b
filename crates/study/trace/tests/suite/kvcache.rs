//! The cache of a language model, compared with a second one that shares no code with it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use hostftl_trace::{Extras, Op, Record, Source};

/// Bytes of a block in these tests: 512 tokens of 128 bytes.
const BLOCK: u64 = 512 * 128;

/// Returns the ids of each request, from the text of the lines.
fn prompts(path: &Path) -> Vec<Vec<u64>> {
    let text = std::fs::read_to_string(path).unwrap();
    let list = |line: &str| line.split(['[', ']']).nth(1).unwrap().to_owned();
    let ids = |line: &str| list(line).split(',').map(|id| id.trim().parse().unwrap()).collect();
    text.lines().map(ids).collect()
}

/// Returns the blocks that are read (true) and written (false), in order. `kept` has the cached
/// blocks, from the next one to evict to the last one.
fn expected(prompts: &[Vec<u64>], slots: usize, is_lru: bool) -> Vec<(bool, u64)> {
    let (mut kept, mut events) = (Vec::new(), Vec::new());
    let renew = |kept: &mut Vec<u64>, id: u64| {
        if is_lru {
            let at = kept.iter().position(|it| *it == id);
            at.map(|at| kept.remove(at)).into_iter().for_each(|id| kept.push(id));
        }
    };
    for ids in prompts {
        let hits = ids.iter().take_while(|id| kept.contains(*id)).count();
        ids[..hits].iter().for_each(|id| renew(&mut kept, *id));
        events.extend(ids[..hits].iter().map(|id| (true, *id)));
        for id in &ids[hits..] {
            if kept.contains(id) {
                renew(&mut kept, *id);
                continue;
            }
            if kept.len() == slots {
                kept.remove(0);
            }
            kept.push(*id);
            events.push((false, *id));
        }
        ids.iter().rev().for_each(|id| renew(&mut kept, *id));
    }
    events
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces/kvcache-synthetic.jsonl")
}

fn records(path: &Path, options: &str) -> (Vec<Record>, String) {
    let source: Source = format!("kvcache:{},token=128,{options}", path.display()).parse().unwrap();
    let mut stream = source.open(1, false).unwrap();
    let records = stream.by_ref().map(Result::unwrap).collect();
    (records, stream.notes().warnings().join("; "))
}

#[test]
fn hits_and_bytes_are_those_of_another_cache() {
    let prompts = prompts(&example());
    for (slots, word) in [(1, "lru"), (40, "lru"), (700, "lru"), (700, "fifo"), (9000, "lru")] {
        let events = expected(&prompts, slots, word == "lru");
        let capacity = slots as u64 * BLOCK;
        let (all, notes) = records(&example(), &format!("capacity={capacity},eviction={word}"));
        assert_eq!(all.len(), events.len(), "{slots} {word}");
        let mut slot_of = HashMap::new();
        for (record, (is_read, id)) in all.iter().zip(&events) {
            assert_eq!((record.op == Op::Read, record.sectors * 512), (*is_read, BLOCK));
            assert!(record.end() * 512 <= capacity && (record.lba * 512).is_multiple_of(BLOCK));
            if *is_read {
                assert_eq!(slot_of.get(id), Some(&record.lba), "the block was written there last");
            } else {
                slot_of.retain(|_, slot| *slot != record.lba);
                slot_of.insert(*id, record.lba);
            }
        }
        let hits = events.iter().filter(|(is_read, _)| *is_read).count();
        let (asked, written) = (prompts.iter().map(Vec::len).sum::<usize>(), events.len() - hits);
        let evicted = written.saturating_sub(slots);
        let counts = format!("of {asked} blocks the cache had {hits} (");
        assert!(notes.contains(&counts), "{notes}");
        assert!(
            notes.contains(&format!("; {written} were written and {evicted} evicted")),
            "{notes}"
        );
    }
}

#[test]
fn blocks_are_transferred_in_chunks_with_ids_by_position() {
    let (whole, _) = records(&example(), "capacity=16m");
    let (all, _) = records(&example(), "capacity=16m,chunk=48k,head=2");
    let mut parts = all.iter();
    for block in &whole {
        let (one, two) = (parts.next().unwrap(), parts.next().unwrap());
        assert_eq!((one.lba, one.sectors, two.sectors), (block.lba, 96, 32));
        assert_eq!((one.end(), two.end(), one.t_ns), (two.lba, block.end(), block.t_ns));
        assert_eq!((one.op, one.placement), (block.op, two.placement));
        assert_eq!(one.placement > 0, one.op == Op::Write);
    }
    assert!(parts.next().is_none());
    let is_head = |it: &&Record| it.placement == 1;
    let heads = all.iter().filter(is_head).count();
    assert!(heads > 0 && heads < all.len() / 2, "{heads}");
    let text = format!("kvcache:{},token=128,capacity=16m,head=2", example().display());
    let stream = text.parse::<Source>().unwrap().open(1, false).unwrap();
    assert_eq!(stream.extras(), Extras { saved: false, placement: true });
}

#[test]
fn wrong_caches_and_lines_are_refused() {
    let wrong = |options: &str| {
        let text = format!("kvcache:{},{options}", example().display());
        text.parse::<Source>().unwrap_err().to_string()
    };
    assert!(wrong("token=1k").ends_with("as in token=320k,capacity=1t"));
    assert!(wrong("token=1k,capacity=1k").contains("1 to 2^32 - 1 blocks of 512 tokens (524288"));
    assert!(
        wrong("token=1k,capacity=1g,eviction=no").contains("use eviction=lru or eviction=fifo")
    );
    assert!(wrong("token=1k,capacity=1g,chunk=100").contains("a multiple of 512 bytes"));
    assert!(wrong("tokens=1k").contains("'tokens' is not an option; use token, capacity"));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong.jsonl");
    let complaint = |line: &str| {
        let first = "{\"timestamp\": 0, \"input_length\": 1, \"hash_ids\": [7]}\n";
        std::fs::write(&path, format!("{first}{line}\n")).unwrap();
        let text = format!("kvcache:{},token=128,capacity=1m", path.display());
        let mut stream = text.parse::<Source>().unwrap().open(1, false).unwrap();
        stream.find_map(Result::err).expect("a line is wrong").to_string()
    };
    let missing = complaint("{\"timestamp\": 5, \"input_length\": 600}");
    assert!(missing.contains("wrong.jsonl:2:") && missing.contains("hash_ids"), "{missing}");
    let few = complaint("{\"timestamp\": 5, \"input_length\": 600, \"hash_ids\": [1]}");
    assert!(few.ends_with(
        "expected an id in hash_ids for each 512 tokens of input, found 1 for 600 tokens"
    ));
    let late = complaint("{\"timestamp\": -1, \"input_length\": 1, \"hash_ids\": [1]}");
    assert!(late.contains("expected a timestamp in ms"), "{late}");
}
