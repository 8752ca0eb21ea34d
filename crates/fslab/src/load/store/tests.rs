//! The store against a plain map.

use super::*;
use crate::load::hardware::{Scale, scaled};
use crate::load::plain::Plain;
use device::{DeviceEngine, Pace};
use units::Stream;
use vtime::{Machine, VirtualClock};

type Files = Plain<VirtualClock<DeviceEngine>>;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    Options {
        memtable: 4 << 10,
        table: 8 << 10,
        level: 16 << 10,
        merge_at: 3,
        stop_at: 5,
        sync: true,
    }
}

fn machine() -> Machine<DeviceEngine> {
    let config = scaled("bytefs", Scale::new(256).unwrap(), &[]).unwrap();
    Machine::new(DeviceEngine::in_memory(&config, Pace::None).unwrap(), 4)
}

/// Opens a store, runs tasks that use it beside those of its own, and closes it.
fn with_store<T: 'static, F: Future<Output = T> + 'static>(
    machine: &mut Machine<DeviceEngine>,
    files: &Rc<Files>,
    bodies: Vec<impl FnOnce(Rc<Store<Files>>) -> F + 'static>,
) -> Vec<T> {
    let opened: Rc<RefCell<Option<Rc<Store<Files>>>>> = Rc::default();
    let (to, of_task) = (Rc::clone(&opened), Rc::clone(files));
    machine.spawn("open", async move {
        let store = Store::open(of_task, "store", options(), || Time::ZERO)
            .await
            .unwrap();
        *to.borrow_mut() = Some(Rc::new(store));
    });
    machine.run().unwrap();
    let store = opened.take().unwrap();
    let (flusher, merger) = (Rc::clone(&store), Rc::clone(&store));
    machine.spawn("flush", async move { flusher.flushing().await.unwrap() });
    machine.spawn("merge", async move { merger.merging().await.unwrap() });
    let left = Rc::new(Cell::new(bodies.len()));
    let results: Rc<RefCell<Vec<T>>> = Rc::default();
    for body in bodies {
        let (store, left) = (Rc::clone(&store), Rc::clone(&left));
        let results = Rc::clone(&results);
        machine.spawn("user", async move {
            let result = body(Rc::clone(&store)).await;
            results.borrow_mut().push(result);
            left.set(left.get() - 1);
            if left.get() == 0 {
                store.close();
            }
        });
    }
    machine.run().unwrap();
    results.take()
}

fn key(number: u64) -> Vec<u8> {
    format!("user{number:06}").into_bytes()
}

fn value(stream: &mut Stream) -> Vec<u8> {
    let size = 8 + stream.below(300) as usize;
    (0..size).map(|_| stream.bits() as u8).collect()
}

async fn compare(store: &Store<Files>, model: &Model, keys: u64) {
    for number in 0..keys {
        let key = key(number);
        assert_eq!(
            store.get(&key).await.unwrap().as_ref(),
            model.get(&key),
            "{number}"
        );
    }
    for from in [0, keys / 2, keys - 3] {
        let found = store.scan(&key(from), 50).await.unwrap();
        let range = model.range(key(from)..).take(50);
        let expected: Vec<_> = range
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        assert_eq!(found, expected, "scan from {from}");
    }
}

/// Puts, deletes, gets and scans by chance.
async fn use_it(store: Rc<Store<Files>>, mut model: Model, seed: u64) -> Model {
    const KEYS: u64 = 300;
    let mut stream = Stream::new(seed, "test");
    for _ in 0..1500 {
        let key = key(stream.below(KEYS));
        match stream.below(10) {
            0 => {
                store.put(vec![(key.clone(), None)]).await.unwrap();
                model.remove(&key);
            }
            1..=6 => {
                let value = value(&mut stream);
                store
                    .put(vec![(key.clone(), Some(value.clone()))])
                    .await
                    .unwrap();
                model.insert(key, value);
            }
            7 => {
                let found = store.scan(&key, 20).await.unwrap();
                let expected: Vec<_> = model.range(key..).take(20).collect();
                let found: Vec<_> = found.iter().map(|(key, value)| (key, value)).collect();
                assert_eq!(found, expected);
            }
            _ => assert_eq!(store.get(&key).await.unwrap().as_ref(), model.get(&key)),
        }
    }
    compare(&store, &model, KEYS).await;
    model
}

#[test]
fn the_store_gives_back_what_a_map_does_also_when_it_is_opened_again() {
    for seed in 0..4 {
        let mut machine = machine();
        let files = Rc::new(Plain::new(machine.clock()));
        let mut model = Model::new();
        for round in 0..3 {
            let before = std::mem::take(&mut model);
            let body = move |store| use_it(store, before, seed * 10 + round);
            model = with_store(&mut machine, &files, vec![body]).remove(0);
        }
        assert!(model.len() > 150);
        let look = move |store: Rc<Store<Files>>| async move {
            compare(&store, &model, 300).await;
            let levels = store
                .version()
                .levels
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>();
            assert!(
                levels.len() > 2 && levels[2] > 0,
                "levels were merged: {levels:?}"
            );
        };
        with_store(&mut machine, &files, vec![look]);
    }
}

#[test]
fn writers_beside_each_other_share_a_write_of_the_log() {
    let mut machine = machine();
    let files = Rc::new(Plain::new(machine.clock()));
    let body = |number: u64| {
        move |store: Rc<Store<Files>>| async move {
            for nth in 0..50 {
                let (key, value) = (key(number * 100 + nth), vec![number as u8; 20]);
                store.put(vec![(key, Some(value))]).await.unwrap();
            }
        }
    };
    with_store(&mut machine, &files, (0..8).map(body).collect());
    // A write and a sync for each of 400 alone would be 800.
    assert!(files.operations.get() < 500, "{}", files.operations.get());
    let check = |store: Rc<Store<Files>>| async move {
        for number in (0..8).flat_map(|writer| (0..50).map(move |nth| writer * 100 + nth)) {
            assert!(store.get(&key(number)).await.unwrap().is_some(), "{number}");
        }
    };
    with_store(&mut machine, &files, vec![check]);
}

#[test]
fn a_log_that_is_cut_short_gives_back_what_came_before() {
    let mut machine = machine();
    let files = Rc::new(Plain::new(machine.clock()));
    let write = |store: Rc<Store<Files>>| async move {
        for number in 0..10 {
            store
                .put(vec![(key(number), Some(vec![7; 10]))])
                .await
                .unwrap();
        }
        let log = Rc::clone(&store.log.borrow());
        // A byte of the last record.
        let at = log.end.get() - 3;
        store.shared.write(log.ino, at, &[99]).await.unwrap();
    };
    with_store(&mut machine, &files, vec![write]);
    let check = |store: Rc<Store<Files>>| async move {
        assert!(store.get(&key(8)).await.unwrap().is_some());
        assert_eq!(store.get(&key(9)).await.unwrap(), None);
    };
    with_store(&mut machine, &files, vec![check]);
}
