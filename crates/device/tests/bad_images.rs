//! Whatever is wrong with an image is one sentence, and the image stays as it is.

use crate::common::{Place, made, small_log};
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, DeviceFileError, Image, Pace, Purpose, fsck};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use units::Stream;

/// Puts a socket there. The name of one has at most 107 bytes, and a target directory may have
/// more; the directory's descriptor has a short name, and unlike the one for temporary files it is
/// on the same disk.
fn put_socket(path: &Path) {
    let directory = File::open(path.parent().unwrap()).unwrap();
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string());
    UnixListener::bind(short.join(path.file_name().unwrap())).unwrap();
}

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
fn an_image_that_was_removed_is_not_closed_in_order_and_one_that_was_renamed_is() {
    for file in ["media.bin", "dram.bin"] {
        let place = Place::new("removed-image");
        let image = new_image(&place);
        let engine = DeviceEngine::open(&image, Pace::None).unwrap();
        fs::remove_file(image.join(file)).unwrap();
        let error = engine.close().unwrap_err().to_string();
        let path = image.join(file);
        let told = format!("{} was removed while the device worked", path.display());
        assert!(error.starts_with(&told), "{error}");
    }
    let place = Place::new("renamed-image");
    let (image, other) = (new_image(&place), place.path("other"));
    let engine = DeviceEngine::open(&image, Pace::None).unwrap();
    fs::rename(&image, &other).unwrap();
    engine.close().unwrap();
    DeviceEngine::open(&other, Pace::None).unwrap();
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

/// A pipe would keep whoever opens or reads it waiting for ever: looking at one gives an answer,
/// which a thread brings that may be left behind.
#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let place = Place::new("irregular");
    let image = new_image(&place);
    for file in ["media.bin", "dram.bin"] {
        let (path, aside) = (image.join(file), place.path("aside"));
        fs::rename(&path, &aside).unwrap();
        let as_pipe = || mkfifo(&path, Mode::S_IRWXU).unwrap();
        let as_device = || symlink("/dev/zero", &path).unwrap();
        let as_socket = || put_socket(&path);
        let makings: [&dyn Fn(); 3] = [&as_pipe, &as_device, &as_socket];
        for make in makings {
            make();
            let (answers, answer) = mpsc::channel();
            let asked = image.clone();
            thread::spawn(move || {
                let opened = DeviceEngine::open(&asked, Pace::None).err();
                answers.send(opened.map(|error| error.to_string())).unwrap();
                let checked = fsck::check(&asked, &mut |_| true).err();
                answers
                    .send(checked.map(|error| error.to_string()))
                    .unwrap();
                let looked_at = Image::describe(&asked).err();
                answers
                    .send(looked_at.map(|error| error.to_string()))
                    .unwrap();
            });
            for of in ["opening", "checking", "looking at"] {
                let error = answer.recv_timeout(Duration::from_secs(20));
                let error = error.unwrap_or_else(|_| panic!("{of} {file} hangs"));
                let error = error.expect("it is no image");
                assert!(error.contains("is not a regular file"), "{of}: {error}");
                assert!(error.contains(file), "{of}: {error}");
            }
            fs::remove_file(&path).unwrap();
        }
        fs::rename(&aside, &path).unwrap();
    }
    DeviceEngine::open(&image, Pace::None).unwrap();
}

/// Which descriptors a process has tells it, also to a process that may write everything.
#[test]
fn whoever_only_looks_opens_to_read() {
    let place = Place::new("read-only");
    let image = new_image(&place);
    let flags = |fd: &str| {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
        let octal = info.lines().find_map(|line| line.strip_prefix("flags:"));
        octal.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok())
    };
    let ways = |image: &Path| {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let ours = open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(image)));
        let names = ours.map(|fd| fd.file_name().into_string().unwrap());
        let ways: BTreeSet<u32> = names.filter_map(|fd| Some(flags(&fd)? & 3)).collect();
        Vec::from_iter(ways)
    };
    let image = fs::canonicalize(image).unwrap();
    let mut checked = Image::open_for(&image, Purpose::Check).unwrap();
    let (read, read_and_write) = (0, 2);
    assert_eq!(ways(&image), [read]);
    assert!(refusal_of_use(&image).contains("is open in another process"));
    // Whatever is done to what was opened to be looked at, the files are as they were.
    let before = fs::read(image.join("dram.bin")).unwrap();
    checked.tables.lose(firmware::PowerLossProtection::None);
    drop(checked);
    assert!(before == fs::read(image.join("dram.bin")).unwrap());
    let used = Image::open(&image).unwrap();
    assert_eq!(ways(&image), [read_and_write]);
    drop(used);
    assert_eq!(ways(&image), Vec::<u32>::new());
}

fn refusal_of_use(image: &Path) -> String {
    Image::open(image).unwrap_err().to_string()
}

/// A process that may not write the files looks at them, and is told so if it wants to use them.
#[test]
fn an_image_that_may_not_be_written_can_be_looked_at() {
    let place = Place::new("unwritable");
    let image = new_image(&place);
    for file in ["media.bin", "dram.bin"] {
        fs::set_permissions(image.join(file), Permissions::from_mode(0o444)).unwrap();
    }
    Image::describe(&image).unwrap();
    let found = fsck::check(&image, &mut |_| true).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
    // Root may write whatever it likes.
    let may_write = OpenOptions::new().write(true).open(image.join("dram.bin"));
    match may_write {
        Ok(_) => drop(DeviceEngine::open(&image, Pace::None).unwrap()),
        Err(_) => assert!(refusal(&image).contains("Permission denied")),
    }
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
    assert!(refusal(&image).contains("version 1, and this Entresol reads version 2 and later"));
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
    // More than most disks have left: nothing is left behind.
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
fn who_looks_at_an_image_keeps_nobody_from_it() {
    let place = Place::new("looked-at");
    let path = place.path("image");
    Image::create(&path, &small_log()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                drop(Image::describe(&path));
            }
        });
        let opened = (0..50).try_for_each(|_| DeviceEngine::open(&path, Pace::None).map(drop));
        is_over.store(true, Ordering::Relaxed);
        opened.unwrap();
    });
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
