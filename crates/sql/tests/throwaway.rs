#![allow(clippy::all, missing_docs)]
mod kit;
use std::{sync::Arc, time::{Duration, Instant}};
use hapax_store::*; use kit::*; use tokio::task::JoinSet;
use hapax_sql::*;
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn speed() {
    for tasks in [1usize, 16, 64, 256] { for nodes in [1, 2] {
    let place = if let Ok(d) = std::env::var("BENCH_DIR") { let _ = d; Place::new() } else { Place::new() };
    let stores: Vec<_> = (0..nodes).map(|_| Arc::new(SqliteStore::open(SqliteConfig::new(place.file())).unwrap())).collect();
    let until = Instant::now() + Duration::from_secs(4);
    let mut set = JoinSet::new();
    let body = bytes::Bytes::from(vec![b'x'; 200]);
    for t in 0..tasks { let store = stores[t % nodes].clone(); let body = body.clone();
        set.spawn(async move { let mut n = 0u64; let mut worst=Duration::ZERO; while Instant::now() < until {
            let s = Instant::now();
            let r = executing(&store).await; done(store.settle(r.ownership(), outcome(body.clone())).await); n += 1; worst=worst.max(s.elapsed()); } (n,worst) }); }
    let r = set.join_all().await; let n: u64 = r.iter().map(|x| x.0).sum(); let w = r.iter().map(|x| x.1).max().unwrap();
    let commits = number(&place.shell(), "SELECT sum(seq) FROM mark");
    println!("tasks {tasks} nodes {nodes}: {} pairs/s, {} commits/s, worst {w:?}", n / 4, commits / 4);
    for s in stores { s.close().await; }
    }}
}
