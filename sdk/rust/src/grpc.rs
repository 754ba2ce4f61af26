//! The service rlx.v1.Backend over gRPC, and runs on the descriptor `runs`.

use crate::error::Error;
use crate::memory::{self, Weights};
use crate::proto::rlx::{self, load_request, run_reply, run_request, set_weights_request, write_state_request};
use crate::proto::rlx::{Chunk, Dump, Progress, RunReply, RunResult, backend_server};
use crate::run::{Caller, Time};
use crate::service::{MAX_CHUNK, Session};
use prost::Message;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::{self, Stream};
use tonic::{Request, Response, Status, Streaming, async_trait};

pub const MAX_MESSAGE: usize = 4 << 20;
/// The interval between progress messages of a run without a region.
const TICK: Duration = Duration::from_millis(200);
/// The most replies of a run that wait to be sent.
const QUEUE: usize = 64;

/// The service of a session.
pub struct Service(pub Arc<Session>);

type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Runs f, which may take long or block, on a thread where it does not delay others.
async fn blocking<T: Send + 'static>(f: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Status> {
    match tokio::task::spawn_blocking(f).await {
        Ok(result) => Ok(result?),
        Err(e) => Err(Error::bug(e.to_string()).into()),
    }
}

/// Converts a channel to a stream.
fn stream<T: Send + 'static>(replies: mpsc::Receiver<Result<T, Status>>) -> Replies<T> {
    Box::pin(tokio_stream::wrappers::ReceiverStream::new(replies))
}

#[async_trait]
impl backend_server::Backend for Service {
    type RunStream = Replies<RunReply>;
    type StatsStream = Replies<rlx::StatsReply>;
    type ReadStateStream = Replies<rlx::StateChunk>;

    async fn info(&self, _: Request<rlx::InfoRequest>) -> Result<Response<rlx::InfoReply>, Status> {
        Ok(Response::new(self.0.info()?))
    }

    async fn load(&self, request: Request<Streaming<rlx::LoadRequest>>) -> Result<Response<rlx::LoadReply>, Status> {
        use load_request::Part;
        let mut parts = request.into_inner();
        let Some(Part::Header(h)) = parts.message().await?.and_then(|m| m.part) else {
            return Err(Error::refused("load: the first message is not a header").into());
        };
        let (size, streamed) = self.0.check_load(&h)?;
        let (mut program, mut weights, mut have) = (Vec::new(), memory::block(streamed, "weights")?, 0);
        while program.len() < size || have < streamed {
            match parts.message().await?.and_then(|m| m.part) {
                Some(Part::Program(c)) if fits(&c, size - program.len()) => program.extend(c),
                Some(Part::Weights(c)) if program.len() == size && fits(&c, streamed - have) => {
                    weights[have..have + c.len()].copy_from_slice(&c);
                    have += c.len();
                }
                Some(_) => return Err(Error::refused("load: a chunk does not fit").into()),
                None => {
                    return Err(Error::refused(format!(
                        "load: ended after {} bytes of program and {have} of weights",
                        program.len()
                    ))
                    .into());
                }
            }
        }
        let session = self.0.clone();
        let load = move || session.load(&h, &program, Weights::Block(weights, streamed));
        Ok(Response::new(blocking(load).await?))
    }

    async fn run(&self, request: Request<Streaming<rlx::RunRequest>>) -> Result<Response<Self::RunStream>, Status> {
        let (session, mut requests) = (self.0.clone(), request.into_inner());
        let Some(run_request::Part::Header(h)) = requests.message().await?.and_then(|m| m.part) else {
            return Err(Error::refused("run: the first message is not a header").into());
        };
        let (replies, receiver) = mpsc::channel(QUEUE);
        let started = Arc::new(AtomicI64::new(0));
        let ticker = match session.region {
            Some(_) => None,
            None => Some(tokio::spawn(tick(replies.clone(), started.clone()))),
        };
        tokio::task::spawn_blocking(move || {
            let handle = Handle::current();
            let mut caller = Remote { handle: handle.clone(), requests, replies: replies.clone(), started };
            let result = session.run(&h, &mut caller);
            if let Some(t) = ticker {
                t.abort();
                let _ = handle.block_on(t); // wait, so that no progress message follows the summary
            }
            let done = result.map(|done| RunReply { part: Some(run_reply::Part::Done(done)) });
            let _ = replies.blocking_send(done.map_err(Status::from));
        });
        Ok(Response::new(stream(receiver)))
    }

    async fn cancel(&self, request: Request<rlx::CancelRequest>) -> Result<Response<rlx::CancelReply>, Status> {
        self.0.cancel(request.into_inner().generation);
        Ok(Response::new(rlx::CancelReply {}))
    }

    async fn stats(&self, request: Request<rlx::StatsRequest>) -> Result<Response<Self::StatsStream>, Status> {
        let r = request.into_inner();
        let times = self.0.times(r.executable, r.generation)?;
        let step = |t: &Time| rlx::Step { node: t.node as i32, start_ns: t.start, time_ns: t.time, flops: None };
        let replies: Vec<_> =
            times.chunks(2048).map(|c| Ok(rlx::StatsReply { steps: c.iter().map(step).collect() })).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(replies))))
    }

    async fn unload(&self, request: Request<rlx::UnloadRequest>) -> Result<Response<rlx::UnloadReply>, Status> {
        let session = self.0.clone();
        blocking(move || session.unload(request.into_inner().executable)).await?;
        Ok(Response::new(rlx::UnloadReply {}))
    }

    async fn make_state(
        &self,
        request: Request<rlx::MakeStateRequest>,
    ) -> Result<Response<rlx::MakeStateReply>, Status> {
        let session = self.0.clone();
        let state = blocking(move || session.make_state(request.get_ref())).await?;
        Ok(Response::new(rlx::MakeStateReply { state }))
    }

    async fn change_state(
        &self,
        request: Request<rlx::ChangeStateRequest>,
    ) -> Result<Response<rlx::ChangeStateReply>, Status> {
        let session = self.0.clone();
        blocking(move || session.change_state(request.get_ref())).await?;
        Ok(Response::new(rlx::ChangeStateReply {}))
    }

    async fn read_state(&self, request: Request<rlx::StateRange>) -> Result<Response<Self::ReadStateStream>, Status> {
        let (session, (replies, receiver)) = (self.0.clone(), mpsc::channel(QUEUE));
        tokio::task::spawn_blocking(move || {
            let read = session.with_state(request.get_ref(), |b| Ok(b.to_vec()));
            match read {
                Err(e) => drop(replies.blocking_send(Err(e.into()))),
                Ok(data) => data
                    .chunks(MAX_CHUNK)
                    .for_each(|c| drop(replies.blocking_send(Ok(rlx::StateChunk { data: c.to_vec() })))),
            }
        });
        Ok(Response::new(stream(receiver)))
    }

    async fn write_state(
        &self,
        request: Request<Streaming<rlx::WriteStateRequest>>,
    ) -> Result<Response<rlx::WriteStateReply>, Status> {
        use write_state_request::Part;
        let (session, mut parts) = (self.0.clone(), request.into_inner());
        let Some(Part::Range(r)) = parts.message().await?.and_then(|m| m.part) else {
            return Err(Error::refused("state: the first message is not a range").into());
        };
        let write = move |into: &mut [u8]| {
            let mut rest = into;
            while !rest.is_empty() {
                let next = Handle::current().block_on(parts.message());
                match next.ok().flatten().and_then(|m| m.part) {
                    Some(Part::Data(c)) if fits(&c, rest.len()) => {
                        rest.split_off_mut(..c.len()).expect("it is as long").copy_from_slice(&c);
                    }
                    _ => return Err(Error::refused(format!("state: {} bytes are missing", rest.len()))),
                }
            }
            Ok(())
        };
        blocking(move || session.with_state(&r, write)).await?;
        Ok(Response::new(rlx::WriteStateReply {}))
    }

    async fn set_weights(
        &self,
        request: Request<Streaming<rlx::SetWeightsRequest>>,
    ) -> Result<Response<rlx::SetWeightsReply>, Status> {
        use set_weights_request::Part;
        let (session, mut parts) = (self.0.clone(), request.into_inner());
        let Some(Part::Header(h)) = parts.message().await?.and_then(|m| m.part) else {
            return Err(Error::refused("weights: the first message is not a header").into());
        };
        let total = session.check_weights(&h)?;
        let mut data = Vec::new();
        while data.len() < total {
            match parts.message().await?.and_then(|m| m.part) {
                Some(Part::Data(c)) if fits(&c, total - data.len()) => data.extend(c),
                _ => {
                    let missing = total - data.len();
                    return Err(Error::refused(format!("weights: {missing} bytes are missing")).into());
                }
            }
        }
        blocking(move || session.set_weights(&h, &data)).await?;
        Ok(Response::new(rlx::SetWeightsReply {}))
    }
}

/// Whether a chunk may come next: not empty, within the limit, and no longer than what is missing.
fn fits(chunk: &[u8], missing: usize) -> bool {
    !chunk.is_empty() && chunk.len() <= missing.min(MAX_CHUNK)
}

/// Sends progress to a host without a region.
async fn tick(replies: mpsc::Sender<Result<RunReply, Status>>, started: Arc<AtomicI64>) {
    loop {
        tokio::time::sleep(TICK).await;
        let progress = Progress { steps: started.load(Ordering::Relaxed) };
        if replies.send(Ok(RunReply { part: Some(run_reply::Part::Progress(progress)) })).await.is_err() {
            return;
        }
    }
}

/// The caller of a run over gRPC. It runs on a thread that may block.
struct Remote {
    handle: Handle,
    requests: Streaming<rlx::RunRequest>,
    replies: mpsc::Sender<Result<RunReply, Status>>,
    started: Arc<AtomicI64>,
}

impl Remote {
    fn send(&self, part: run_reply::Part) -> Result<(), Error> {
        let gone = |_| Error::new(crate::Code::Cancelled, "the host has ended the call");
        self.replies.blocking_send(Ok(RunReply { part: Some(part) })).map_err(gone)
    }
}

impl Caller for Remote {
    fn input(&mut self, index: usize, into: &mut [u8]) -> Result<(), Error> {
        let mut rest = into;
        while !rest.is_empty() {
            let next = self.handle.block_on(self.requests.message());
            match next.ok().flatten().and_then(|m| m.part) {
                Some(run_request::Part::Input(c)) if c.index as usize == index && fits(&c.data, rest.len()) => {
                    rest.split_off_mut(..c.data.len()).expect("it is as long").copy_from_slice(&c.data);
                }
                _ => return Err(Error::refused(format!("run: input {index} lacks {} bytes", rest.len()))),
            }
        }
        Ok(())
    }

    fn step(&mut self, started: usize) {
        self.started.store(started as i64, Ordering::Relaxed);
        // If the connection is busy, a later message has the number.
        let part = Some(run_reply::Part::Progress(Progress { steps: started as i64 }));
        let _ = self.replies.try_send(Ok(RunReply { part }));
    }

    fn cancelled(&self) -> bool {
        self.replies.is_closed()
    }

    fn dump(&mut self, node: usize, shape: &[usize], data: &[u8]) -> Result<(), Error> {
        let shape = shape.iter().map(|n| *n as i64).collect();
        let (head, rest) = data.split_at(data.len().min(MAX_CHUNK));
        self.send(run_reply::Part::Dump(Dump { node: node as i32, first: true, shape, data: head.to_vec() }))?;
        rest.chunks(MAX_CHUNK).try_for_each(|c| {
            self.send(run_reply::Part::Dump(Dump { node: node as i32, data: c.to_vec(), ..Default::default() }))
        })
    }

    fn output(&mut self, index: usize, data: &[u8]) -> Result<(), Error> {
        data.chunks(MAX_CHUNK)
            .try_for_each(|c| self.send(run_reply::Part::Output(Chunk { index: index as i32, data: c.to_vec() })))
    }
}

/// The caller of a run on the descriptor `runs`. All tensors are in the region.
struct Direct;

impl Caller for Direct {
    fn input(&mut self, _: usize, _: &mut [u8]) -> Result<(), Error> {
        Err(Error::bug("an input of a direct run is not in the region"))
    }

    fn step(&mut self, _: usize) {}

    fn cancelled(&self) -> bool {
        false
    }

    fn dump(&mut self, _: usize, _: &[usize], _: &[u8]) -> Result<(), Error> {
        Err(Error::refused("run: a direct run has no dumps"))
    }

    fn output(&mut self, _: usize, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

/// Serves direct runs until the host closes the socket: reads a length and a RunHeader, and writes a length and a
/// RunResult.
pub fn serve_direct(session: &Session, mut socket: UnixStream) -> std::io::Result<()> {
    loop {
        let mut head = [0; 4];
        socket.read_exact(&mut head)?;
        let size = u32::from_le_bytes(head) as usize;
        if size > MAX_MESSAGE {
            return Err(std::io::Error::other(format!("a message of {size} bytes; at most {MAX_MESSAGE}")));
        }
        let mut data = vec![0; size];
        socket.read_exact(&mut data)?;
        let header = rlx::RunHeader::decode(&data[..]).map_err(std::io::Error::other)?;
        let answer = match header.dump.is_empty() {
            true => session.run(&header, &mut Direct),
            false => Err(Error::refused("run: a direct run has no dumps")),
        };
        let result = match answer {
            Ok(done) => RunResult { done: Some(done), status: Vec::new() },
            Err(e) => RunResult { done: None, status: e.encoded() },
        };
        let mut out = vec![0; 4];
        result.encode(&mut out).map_err(std::io::Error::other)?;
        let size = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&size.to_le_bytes());
        socket.write_all(&out)?;
    }
}
