//! Tests of map pages in frames without a volume.

use hostftl_core::Page;
use hostftl_format::log::Place;

use crate::config::LayerConfig;
use crate::kind::LayerKind;
use crate::log::layout::Layout;
use crate::log::map::{Map, Where};

/// Returns a map of many pages, with memory for few of them.
fn small() -> (Layout, Map) {
    let mut config = LayerConfig::new(LayerKind::Log);
    (config.log.few_pairs, config.log.map_memory) = (true, Some(1));
    let device = hostftl_core::DeviceInfo::block(1 << 20, 8);
    let layout = Layout::new(&config, &[device]).expect("a plan");
    let map = Map::new(&layout);
    (layout, map)
}

fn place(byte: u64) -> Place {
    Place::new(0, byte, 4096, 1)
}

/// Loads a page without an image.
fn bring(map: &mut Map, page: u32) -> bool {
    let came = map.invite(page);
    if came {
        map.came(page, None);
    }
    came
}

#[test]
fn dirty_pages_are_not_evicted() {
    let (_, mut map) = small();
    assert!(bring(&mut map, 0) && map.pin(0, 0));
    assert!(map.set(0, place(1 << 20), 7).is_nowhere());
    map.unpin(0);
    let frames = map.use_of_frames().1;
    (1..2 * frames).for_each(|page| assert!(bring(&mut map, page), "another makes room"));
    assert_eq!((map.state(0), map.state(1)), (Where::Here, Where::Away));
    assert_eq!((map.get(0), map.mapped()), (Some((place(1 << 20), 7)), 1));
    assert_eq!(map.check(), Ok(()));
}

#[test]
fn an_image_shows_a_page_as_it_was_at_the_snapshot() {
    let (_, mut map) = small();
    assert!(bring(&mut map, 3) && map.pin(3, 0));
    let block = map.page_end(2);
    map.set(block, place(1 << 20), 7);
    map.freeze();
    assert_eq!(map.set(block, place(2 << 20), 8), place(1 << 20));
    let mut page = Page::default();
    map.emit(3, &mut page);
    let (shown, _) = hostftl_format::log::pair(&page, 0);
    assert_eq!((shown, map.place(block)), (place(1 << 20), place(2 << 20)));
    assert_eq!(map.dirty(), 1, "later changes belong to the next image");
    map.root_durable();
    map.unpin(3);
    assert_eq!(map.check(), Ok(()));
}

#[test]
fn failed_page_loads_are_retried_unless_pinned() {
    let (_, mut map) = small();
    assert!(map.invite(5));
    assert_eq!((map.state(5), map.find_place(map.page_end(4))), (Where::Coming, None));
    map.failed(5);
    assert!(map.pin(5, 0));
    map.try_again(5);
    assert_eq!(map.state(5), Where::Bad);
    map.unpin(5);
    map.try_again(5);
    assert_eq!(map.state(5), Where::Away);
}

#[test]
#[should_panic(expected = "a page has one frame")]
fn a_page_is_invited_once() {
    let (_, mut map) = small();
    assert!(map.invite(5));
    map.invite(5);
}
