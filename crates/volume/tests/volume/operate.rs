//! What an operator wants of a volume, served and not served.

use hostftl_layers::LayerKind;
use hostftl_volume::{Error, StartOptions, Wish, create, open, operate, operate_here, replay};

use crate::common::{Client, Place};

#[test]
fn a_wish_reaches_the_layer_of_a_served_volume_and_comes_back_refused() {
    let place = Place::new();
    create(&place.spec(LayerKind::Passthrough)).unwrap();
    let path = place.path("v.toml");
    assert!(matches!(operate(&path, &Wish::Scrub), Ok(None)), "nobody serves it");
    let recording = place.path("recording");
    let options = StartOptions { record: Some(recording.clone()), ..StartOptions::default() };
    let (running, port) = open(&path).unwrap().start(&options).unwrap();
    let client = Client::new(port);
    client.write(0, &[7; 4096], false).unwrap();
    let why = |wish: &Wish| match operate(&path, wish) {
        Err(Error::Refused { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(&Wish::Scrub), "layer passthrough can't do that");
    assert_eq!(why(&Wish::Offline("0".into())), "layer passthrough can't do that");
    let text = why(&Wish::Remove("nobody".into()));
    assert!(text.starts_with("nobody is none of its devices: 0 ("), "{text}");
    assert_eq!(client.read(0, 4096), [7; 4096]);
    running.stop().unwrap();
    let replayed = replay(&recording).unwrap();
    assert!(replayed.is_same(), "a recording has what was wanted: {replayed:?}");
}

#[test]
fn a_wish_for_a_volume_that_nobody_serves_opens_it_and_closes_it_again() {
    let place = Place::new();
    create(&place.spec(LayerKind::Hard)).unwrap();
    let path = place.path("v.toml");
    for _ in 0..2 {
        let refused = operate_here(&path, &Wish::Scrub).err().map(|error| error.to_string());
        let expected = format!("{}: layer hard can't do that", path.display());
        assert_eq!(refused, Some(expected));
    }
}
