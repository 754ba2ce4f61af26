//! The process: environment, descriptors, lifeline, handshake, TLS, and the one connection. spec/protocol.md, sections
//! 1 to 4.

use crate::backend::Backend;
use crate::error::{Error, SetupError};
use crate::grpc::{self, MAX_MESSAGE, Service};
use crate::memory::{NewWeights, Region};
use crate::proto::plugin::{Empty, grpc_controller_server};
use crate::proto::rlx::backend_server::BackendServer;
use crate::service::Session;
use crate::tls;
use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tonic::codegen::Service as _;
use tonic::{Request, Response, Status, async_trait};

const COOKIE: &str = "1f6d3a52c7e84b0e9d0b5a6f2c91e0d4";
const VERSION: &str = "2";
const BEAT: Duration = Duration::from_millis(100);
/// Time for the reply to Shutdown to go out before the connection ends.
const LINGER: Duration = Duration::from_millis(50);

/// Serves a backend to the host that started this process, and returns when the host ends the session.
///
/// The process should then exit. It is an error, with a text for the user, if no host started the process, or if the
/// host violates spec/protocol.md.
pub fn serve(backend: Backend) -> Result<(), SetupError> {
    let name = &backend.name;
    if var("RLX_BACKEND") != COOKIE {
        let how = format!("rlxrun MODEL.rlx --backend {name}");
        return Err(SetupError::NotStarted(format!(
            "rlx-backend-{name} is a backend of rlxrun, which starts it: {how}"
        )));
    }
    if !var("PLUGIN_PROTOCOL_VERSIONS").split(',').any(|v| v == VERSION) {
        let theirs = var("PLUGIN_PROTOCOL_VERSIONS");
        return Err(SetupError::NotStarted(format!(
            "rlx-backend-{name} speaks protocol version {VERSION}; the host, {theirs}"
        )));
    }
    let mut fds = descriptors(&var("RLX_FDS"))?;
    let Some(lifeline) = fds.remove("lifeline") else {
        return Err(SetupError::Session("RLX_FDS has no lifeline".into()));
    };
    spawn("lifeline", move || end_with(File::from(lifeline)))?;
    let region = fds.remove("io").map(|fd| Region::open(File::from(fd))).transpose().map_err(SetupError::Session)?;
    let runs = fds.remove("runs").filter(|_| region.is_some());
    let artifact = fds.remove("artifact").map(File::from);
    let new_weights = fds.remove("weights").map(|fd| NewWeights::new(File::from(fd)));
    let session = Arc::new(Session::new(backend, region, artifact, new_weights, runs.is_some()));
    if session.region.is_some() {
        let s = session.clone();
        spawn("beat", move || {
            for n in 1.. {
                s.region.iter().for_each(|r| r.beat(n));
                std::thread::sleep(BEAT);
            }
        })?;
    }
    if let Some(fd) = runs {
        let s = session.clone();
        spawn("runs", move || drop(grpc::serve_direct(&s, fd.into())))?; // ends when the host closes the socket
    }
    let failed = |e: &dyn std::fmt::Display| SetupError::Session(e.to_string());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|e| failed(&e))?;
    let result = runtime.block_on(connection(session)).map_err(|e| failed(&e));
    runtime.shutdown_background(); // a run in progress ends with the process
    result
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn spawn(name: &str, f: impl FnOnce() + Send + 'static) -> Result<(), SetupError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(f);
    thread.map(drop).map_err(|e| SetupError::Session(format!("thread {name}: {e}")))
}

/// Takes over the inherited descriptors of a list such as `lifeline=3,io=4`. Child processes do not inherit them.
fn descriptors(list: &str) -> Result<HashMap<String, OwnedFd>, SetupError> {
    let mut out = HashMap::new();
    let mut seen = Vec::new();
    for entry in list.split(',') {
        let fail = |why: &str| SetupError::Session(format!("RLX_FDS has {entry:?}; {why}"));
        let (name, number) = entry.split_once('=').ok_or_else(|| fail("want NAME=NUMBER"))?;
        let number: RawFd = number.parse().map_err(|_| fail("want NAME=NUMBER"))?;
        if number <= 2 || seen.contains(&number) {
            return Err(fail("it is a standard stream, or has another name, too"));
        }
        seen.push(number);
        // SAFETY: the host opened the descriptor for this process and lists each number once. Nothing else in the
        // process owns it, because serve is called only once and before anything else reads the host's variables.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).map_err(|e| fail(&e.to_string()))?;
        out.insert(name.to_string(), fd);
    }
    Ok(out)
}

/// Kills this process and its children when the host exits.
fn end_with(mut lifeline: File) {
    use rustix::process::{Signal, getpgrp, getpid, kill_process_group};
    while lifeline.read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::Interrupted) {}
    if getpgrp() == getpid() {
        let _ = kill_process_group(getpid(), Signal::KILL);
    }
    std::process::exit(1);
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Prints the handshake, accepts one connection, and serves it until it ends.
async fn connection(session: Arc<Session>) -> Result<(), Failure> {
    let path = PathBuf::from(var("PLUGIN_UNIX_SOCKET_DIR")).join("backend.sock");
    let listener = UnixListener::bind(&path)?;
    let (config, certificate) = tls::server(var("PLUGIN_CLIENT_CERT").as_bytes())?;
    println!("1|{VERSION}|unix|{}|grpc|{}", path.display(), BASE64_STANDARD_NO_PAD.encode(certificate));
    std::io::stdout().flush()?;
    let (socket, _) = listener.accept().await?;
    drop(listener);
    let socket = tokio_rustls::TlsAcceptor::from(config).accept(socket).await?;

    let ended = Arc::new(Notify::new());
    let backend = BackendServer::new(Service(session))
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let controller = grpc_controller_server::GrpcControllerServer::new(Controller(ended.clone()));
    let route = hyper::service::service_fn(move |r: hyper::Request<Incoming>| {
        let (mut backend, mut controller) = (backend.clone(), controller.clone());
        async move {
            let service = r.uri().path().split('/').nth(1).unwrap_or_default();
            match service {
                "rlx.v1.Backend" if !r.headers().contains_key("grpc-timeout") => {
                    Ok(Status::from(Error::refused("the call has no deadline")).into_http())
                }
                "rlx.v1.Backend" => backend.call(r).await,
                "plugin.GRPCController" => controller.call(r).await,
                _ => Ok(Status::unimplemented(format!("no service {service}")).into_http()),
            }
        }
    });
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.max_concurrent_streams(32).max_header_list_size(64 << 10);
    let served = tokio::spawn(http.serve_connection(TokioIo::new(socket), route));
    let abort = served.abort_handle();
    tokio::spawn(async move {
        ended.notified().await;
        tokio::time::sleep(LINGER).await;
        abort.abort();
    });
    match served.await {
        Ok(result) => Ok(result?),
        Err(e) if e.is_cancelled() => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// plugin.GRPCController. go-plugin ends a process with it.
struct Controller(Arc<Notify>);

#[async_trait]
impl grpc_controller_server::GrpcController for Controller {
    async fn shutdown(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        self.0.notify_one();
        Ok(Response::new(Empty {}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_descriptors() {
        for list in ["", "lifeline", "lifeline=x", "io=1", "io=-4"] {
            assert!(matches!(descriptors(list), Err(SetupError::Session(_))), "{list}");
        }
    }

    #[test]
    fn not_started() {
        let err = serve(Backend::new("mine", "1")).unwrap_err();
        assert_eq!(
            err.to_string(),
            "rlx-backend-mine is a backend of rlxrun, which starts it: rlxrun MODEL.rlx --backend mine"
        );
    }
}
