//! Routes whose handlers take their attempt, exactly once, in one way: anything else does not
//! compile.

use ::axum::{
    handler::Handler,
    routing::{MethodFilter, MethodRouter, on},
};

use crate::{ByReturn, Execution, OperationLayer};

/// What a handler takes its attempt by: `Tx` or [`Execution`]. A handler takes one of them, once.
#[diagnostic::on_unimplemented(
    message = "this handler takes no attempt, so nothing would protect what it does",
    label = "takes neither `hapax::Tx` nor `hapax::Execution`",
    note = "take one of them as an argument; a handler that knows nothing of hapax is protected \
            as a whole by `.layer(h.operation(\"…\").bracketed())`"
)]
pub trait TakesAttempt: sealed::Sealed {}

impl TakesAttempt for Execution<ByReturn> {}
impl sealed::Sealed for Execution<ByReturn> {}

#[cfg(feature = "sqlite")]
impl TakesAttempt for crate::Tx {}
#[cfg(feature = "sqlite")]
impl sealed::Sealed for crate::Tx {}

/// The arguments of a handler, of which the one at the place `At` takes the attempt.
///
/// Only one place fits: with two the compiler cannot tell which is meant, with none there is no
/// implementation.
pub trait TakesAttemptAt<At>: sealed::SealedAt<At> {}

mod sealed {
    pub trait Sealed {}
    pub trait SealedAt<At> {}
}

impl OperationLayer {
    /// A route for `POST`: `post(handler).layer(this)`, checked by the compiler. The handler takes
    /// its attempt by one of `Tx` and [`Execution`].
    ///
    /// ```
    /// use axum::Router;
    /// use hapax::{Execution, Hapax};
    ///
    /// async fn pay(mut x: Execution) -> Result<String, hapax::StepError<String>> {
    ///     let charge = x.call("charge", async |id| Ok::<_, String>(format!("charged under {id}")));
    ///     charge.await
    /// }
    ///
    /// fn app(h: &Hapax) -> Router {
    ///     Router::new().route("/payments", h.operation("payments.create").post(pay))
    /// }
    /// ```
    ///
    /// # Panics
    /// If the policy lets requests without a key pass, for which there is no attempt to take.
    #[track_caller]
    pub fn post<H, T, S, At>(self, handler: H) -> MethodRouter<S>
    where
        H: Handler<T, S>,
        T: TakesAttemptAt<At> + 'static,
        S: Clone + Send + Sync + 'static,
    {
        self.on(MethodFilter::POST, handler)
    }

    /// A route for other methods than `POST`. See [`post`](Self::post).
    ///
    /// # Panics
    /// If the policy lets requests without a key pass, for which there is no attempt to take.
    #[track_caller]
    pub fn on<H, T, S, At>(self, methods: MethodFilter, handler: H) -> MethodRouter<S>
    where
        H: Handler<T, S>,
        T: TakesAttemptAt<At> + 'static,
        S: Clone + Send + Sync + 'static,
    {
        self.must_require_a_key();
        on(methods, handler).layer(self)
    }
}

/// The arguments before the place, then those behind it; once for each place of up to eight.
macro_rules! takes_attempt {
    ($(($($before:ident),*) [$place:ident] ($($behind:ident),*);)+) => {$(
        impl<M, A: TakesAttempt, $($before,)* $($behind),*> TakesAttemptAt<$place>
            for (M, $($before,)* A, $($behind),*) {}
        impl<M, A: TakesAttempt, $($before,)* $($behind),*> sealed::SealedAt<$place>
            for (M, $($before,)* A, $($behind),*) {}
    )+};
}

macro_rules! places {
    ($($(#[$doc:meta])* $place:ident),+) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        #[doc(hidden)]
        pub enum $place {}
    )+};
}

places! { First, Second, Third, Fourth, Fifth, Sixth, Seventh, Eighth }

takes_attempt! {
    () [First] ();
    () [First] (B);
    () [First] (B, C);
    () [First] (B, C, D);
    () [First] (B, C, D, E);
    () [First] (B, C, D, E, F);
    () [First] (B, C, D, E, F, G);
    () [First] (B, C, D, E, F, G, H);
    (B) [Second] ();
    (B) [Second] (C);
    (B) [Second] (C, D);
    (B) [Second] (C, D, E);
    (B) [Second] (C, D, E, F);
    (B) [Second] (C, D, E, F, G);
    (B) [Second] (C, D, E, F, G, H);
    (B, C) [Third] ();
    (B, C) [Third] (D);
    (B, C) [Third] (D, E);
    (B, C) [Third] (D, E, F);
    (B, C) [Third] (D, E, F, G);
    (B, C) [Third] (D, E, F, G, H);
    (B, C, D) [Fourth] ();
    (B, C, D) [Fourth] (E);
    (B, C, D) [Fourth] (E, F);
    (B, C, D) [Fourth] (E, F, G);
    (B, C, D) [Fourth] (E, F, G, H);
    (B, C, D, E) [Fifth] ();
    (B, C, D, E) [Fifth] (F);
    (B, C, D, E) [Fifth] (F, G);
    (B, C, D, E) [Fifth] (F, G, H);
    (B, C, D, E, F) [Sixth] ();
    (B, C, D, E, F) [Sixth] (G);
    (B, C, D, E, F) [Sixth] (G, H);
    (B, C, D, E, F, G) [Seventh] ();
    (B, C, D, E, F, G) [Seventh] (H);
    (B, C, D, E, F, G, H) [Eighth] ();
}
