//! Layers of configuration and superblocks that have the form of good ones: a sentence, or taken.

use crate::common::{Place, small_log};
use device::config::{Layer, PRESETS};
use device::{DeviceConfig, DeviceEngine, Image, Pace};
use forge::image::set_config_of;
use forge::{Choices, change_text};
use proptest::prelude::*;

fn choices(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_changed_layer_is_taken_or_refused_in_sentences(which in 0..4_usize, bytes in choices(40)) {
        let preset = &PRESETS[which];
        let good = DeviceConfig::of_preset(preset.name, &[]).unwrap().to_toml();
        let text = change_text(&good, &mut Choices::new(&bytes));
        let layer = Layer::new("given", text);
        if let Err(error) = DeviceConfig::of_preset(preset.name, &[layer]) {
            prop_assert!(!error.to_string().trim().is_empty());
        }
    }
}

#[test]
fn a_forged_superblock_is_refused_in_a_sentence_or_opened() {
    let place = Place::new("forged-superblock");
    let config = small_log();
    let image = place.path("image");
    let good = config.to_toml();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(150));
    let outcome = runner.run(&choices(12), |bytes| {
        // Each of its own: one that is opened is another then.
        let _ = std::fs::remove_dir_all(&image);
        Image::create(&image, &config).unwrap();
        set_config_of(&image, &change_text(&good, &mut Choices::new(&bytes)));
        match DeviceEngine::open(&image, Pace::None) {
            Ok(engine) => engine.close().unwrap(),
            Err(error) => prop_assert!(!error.to_string().trim().is_empty()),
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    // What the test puts there is what opening reads.
    let _ = std::fs::remove_dir_all(&image);
    Image::create(&image, &config).unwrap();
    set_config_of(&image, &good);
    DeviceEngine::open(&image, Pace::None)
        .unwrap()
        .close()
        .unwrap();
}
