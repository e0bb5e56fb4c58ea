// What SRC may be.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "libshard/base/files/source_tree.h"
#include "libshard/format/checkpoint.h"
#include "libshard/remote/scheme.h"
#include "tools/base/command.h"

namespace moepack::cli {

// How to reach servers.
struct RemoteArguments {
  bool plain_http = false;
  std::string endpoint;
  bool full_download = false;
  std::string cache;  // "" for none
  uint64_t cache_size = 20'000'000'000;
};
// For every command that reaches servers.
void AddPlainHttp(CLI::App& app, bool& plain_http);
// --plain-http, --endpoint, --allow-full-download, --cache, --cache-size, in a section of their
// own.
void AddRemoteOptions(CLI::App& app, RemoteArguments& arguments);

// Refuses options that have no effect because `local` is not an address; `is` says what it is.
Status CheckRemoteUse(const RemoteArguments& arguments, const std::string& local,
                      const char* is = "on this machine");
// Refuses --endpoint for an address that is not s3://.
Status CheckEndpointUse(const RemoteArguments& arguments, const std::string& address);

// What SRC may be besides a path, for commands.
using remote::AddressForms;
using remote::IsAddress;

// The only place where what a user names becomes a tree: a directory on this machine, a file in
// one, or an address. Another kind of address needs its own SourceTree and Scheme
// (libshard/remote/scheme.h).
Result<moepack::Source> OpenSource(const std::string& source,
                                   const RemoteArguments& arguments = {});

// kUnsupported, with what to do instead, for an address.
Status CheckIsLocal(const std::string& source);

// kNotFound, with the address that was meant, for what is no path here and looks like a name that
// only its scheme is missing from.
Status CheckIsNoName(const std::string& source);

// kNotFound, with what to do instead, for what is no path here and looks like a reference: those
// commands read files, such as those of the group.
Status CheckIsNoReference(const std::string& source, uint32_t group = 0);

// The sizes of all files together.
uint64_t SizeOfFiles(const Checkpoint& checkpoint);
// Prints how much servers were asked for, for files of `bytes`; nothing if all of them are local.
void NoteTraffic(const SourceTree& tree, uint64_t bytes, bool dry_run = false);

}  // namespace moepack::cli
