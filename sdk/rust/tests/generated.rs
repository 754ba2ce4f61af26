//! src/proto is what prost and tonic make of the protocol's definition. `RLX_UPDATE=1 cargo test --test generated` writes it anew.

use prost_types::{
    DescriptorProto, FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto,
};
use std::{env, fs};

/// The service that go-plugin ends a process by.
fn controller() -> FileDescriptorProto {
    let shutdown = MethodDescriptorProto {
        name: Some("Shutdown".into()),
        input_type: Some(".plugin.Empty".into()),
        output_type: Some(".plugin.Empty".into()),
        ..Default::default()
    };
    let service =
        ServiceDescriptorProto { name: Some("GRPCController".into()), method: vec![shutdown], ..Default::default() };
    FileDescriptorProto {
        name: Some("grpc_controller.proto".into()),
        package: Some("plugin".into()),
        message_type: vec![DescriptorProto { name: Some("Empty".into()), ..Default::default() }],
        service: vec![service],
        syntax: Some("proto3".into()),
        ..Default::default()
    }
}

#[test]
fn is_up_to_date() {
    use prost::Message;
    let crate_dir = env!("CARGO_MANIFEST_DIR");
    let compiled =
        fs::read(format!("{crate_dir}/../python/rlx_backend/backend.binpb")).expect("it is in the repository");
    let mut set = FileDescriptorSet::decode(&compiled[..]).unwrap();
    set.file.push(controller());
    let out = env!("CARGO_TARGET_TMPDIR");
    let config = tonic_prost_build::configure().build_client(false).build_transport(false).out_dir(out);
    config.compile_fds(set).unwrap();
    for name in ["plugin.rs", "rlx.v1.rs"] {
        let (want, path) =
            (fs::read_to_string(format!("{out}/{name}")).unwrap(), format!("{crate_dir}/src/proto/{name}"));
        if env::var_os("RLX_UPDATE").is_some() {
            fs::write(&path, &want).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == want,
            "{path} is stale: RLX_UPDATE=1 cargo test --test generated"
        );
    }
}
