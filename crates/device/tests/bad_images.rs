//! Whatever is wrong with an image is one sentence, and the image stays as it is.

mod common;

use common::{Place, made, small_log};
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, DeviceFileError, Image, Pace};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use units::Stream;

/// The sentence with which an image is refused, and that it was not touched.
fn refusal(image: &Path) -> String {
    let bytes = |file: &str| fs::read(image.join(file)).ok();
    let before = (bytes("media.bin"), bytes("dram.bin"));
    let error = match DeviceEngine::open(image, Pace::None) {
        Ok(_) => panic!("{} is opened", image.display()),
        Err(error) => error.to_string(),
    };
    assert!(
        before == (bytes("media.bin"), bytes("dram.bin")),
        "the image is changed: {error}"
    );
    assert!(!error.contains('\n'), "{error}");
    assert!(
        error.contains(image.to_str().unwrap()),
        "it does not say where: {error}"
    );
    error
}

fn new_image(place: &Place) -> std::path::PathBuf {
    let path = place.path("image");
    Image::create(&path, &small_log()).unwrap();
    path
}

#[test]
fn what_is_no_image_is_refused() {
    let place = Place::new("no-image");
    let missing = place.path("nothing");
    assert!(refusal(&missing).contains("is not a device image"));
    let empty = place.path("empty");
    fs::create_dir(&empty).unwrap();
    assert!(refusal(&empty).contains("entresol device create"));
    let file = place.path("file");
    fs::write(&file, "text").unwrap();
    assert!(refusal(&file).contains("is not a device image"));
    fs::write(empty.join("media.bin"), vec![1; 100_000]).unwrap();
    assert!(refusal(&empty).contains("this is not a media file"));
}

#[test]
fn another_version_is_refused_by_its_number() {
    let place = Place::new("newer");
    let image = new_image(&place);
    let media = image.join("media.bin");
    let mut bytes = fs::read(&media).unwrap();
    bytes[8..12].copy_from_slice(&7u32.to_le_bytes());
    fs::write(&media, &bytes).unwrap();
    assert!(refusal(&image).contains("version 7"));
    bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
    fs::write(&media, bytes).unwrap();
    assert!(refusal(&image).contains("version 1, and this Entresol reads version 2"));
}

#[test]
fn a_truncated_file_is_refused_by_its_length() {
    let place = Place::new("truncated");
    for file in ["media.bin", "dram.bin"] {
        let image = new_image(&place);
        let opened = OpenOptions::new()
            .write(true)
            .open(image.join(file))
            .unwrap();
        let whole = opened.metadata().unwrap().len();
        for length in [whole - 1, 70_000, 10, 0] {
            opened.set_len(length).unwrap();
            let error = refusal(&image);
            assert!(error.contains(file), "{error}");
            let looked_at = Image::describe(&image).map_err(|error| error.to_string());
            assert_eq!(looked_at.err(), Some(error), "{file} of {length} B");
        }
        fs::remove_dir_all(image).unwrap();
    }
}

#[test]
fn files_of_two_images_are_not_put_together() {
    let place = Place::new("mixed");
    let image = new_image(&place);
    let other = place.path("other");
    Image::create(&other, &small_log()).unwrap();
    fs::copy(other.join("dram.bin"), image.join("dram.bin")).unwrap();
    assert!(refusal(&image).contains("of another"));
}

#[test]
fn an_image_is_open_in_one_place_at_a_time() {
    let place = Place::new("locked");
    let engine = made(&place, &small_log());
    assert!(refusal(&place.path("image")).contains("is open in another process"));
    assert!(Image::describe(&place.path("image")).unwrap().is_open);
    engine.close().unwrap();
    assert!(!Image::describe(&place.path("image")).unwrap().is_open);
    DeviceEngine::open(&place.path("image"), Pace::None).unwrap();
}

#[test]
fn nothing_is_made_over_what_exists_or_half() {
    let place = Place::new("exists");
    let image = new_image(&place);
    let error = Image::create(&image, &small_log()).unwrap_err();
    assert!(matches!(error, DeviceFileError::Exists(_)), "{error}");
    let nowhere = place.path("nowhere").join("image");
    assert!(Image::create(&nowhere, &small_log()).is_err());
    // More than any disk has: nothing is left behind.
    let layers = [
        "ssd.dram=64GiB",
        "ssd.buffers=65536",
        "nand.page_size=16KiB",
    ]
    .map(|set| Layer::assignment(set).unwrap());
    if let Ok(config) = DeviceConfig::of_preset("bytefs", &layers) {
        let big = place.path("big");
        if Image::create(&big, &config).is_ok() {
            fs::remove_dir_all(&big).unwrap();
        }
    }
    let left: Vec<_> = fs::read_dir(place.path("")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_flipped_byte_of_a_superblock_is_refused() {
    let place = Place::new("flipped");
    let image = new_image(&place);
    let mut stream = Stream::new(1, "flipped bytes");
    for turn in 0..80 {
        let file = ["media.bin", "dram.bin"][turn % 2];
        // Most of it is padding; what says something is at the front.
        let at = stream.below(if turn < 40 { 64 } else { 65_536 });
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(image.join(file))
            .unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        let flipped = [byte[0] ^ (1 + stream.below(255)) as u8];
        file.write_all_at(&flipped, at).unwrap();
        refusal(&image);
        assert!(Image::describe(&image).is_err());
        file.write_all_at(&byte, at).unwrap();
    }
    DeviceEngine::open(&image, Pace::None).unwrap();
}
