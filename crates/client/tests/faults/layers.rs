//! One layer retries.

use hapax_client::{Outcome, Policy};

use crate::{
    client, created, done, quick,
    server::{Play, Server},
};

#[tokio::test]
async fn who_is_retried_above_sends_once_and_says_so_to_those_below() {
    let server = Server::playing([Play::Reset, created()]).await;
    let sending = async { client(quick()).send(server.post().build().unwrap()).await.unwrap() };
    let outcome = hapax_above::retrying(sending).await;
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    assert_eq!(server.arrivals().len(), 1);
    assert_eq!(server.arrivals()[0].field("hapax-retries"), Some("above"));
}

#[tokio::test]
async fn who_retries_says_so_and_who_does_not_says_nothing() {
    for (policy, said) in [(quick(), Some("above")), (Policy::once(), None)] {
        let server = Server::playing([created()]).await;
        done(client(policy).send(server.post().build().unwrap()).await.unwrap());
        assert_eq!(server.arrivals()[0].field("hapax-retries"), said);
    }
}
