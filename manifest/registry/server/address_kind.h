// How far an address reaches, so that a server on the internet cannot lead anyone to a server that
// only this network or this machine can see.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace moepack::registry {

enum class AddressKind : uint8_t {
  kPublic,
  kPrivate,    // RFC 1918, 6598 and 4193, and addresses that are not of a host
  kLinkLocal,  // 169.254.0.0/16, where clouds serve their secrets, and fe80::/10
  kLoopback,
};

// The numeric addresses that a name has; empty if it has none here.
using Resolve = std::function<std::vector<std::string>(const std::string& host)>;
std::vector<std::string> ResolveBySystem(const std::string& host);

// Each kind among the addresses of a host, once; empty for a name without any here. `host` is that
// of a Url. Numbers are read in every form that inet_aton accepts, as libcurl does.
std::vector<AddressKind> KindsOfHost(const std::string& host, const Resolve& resolve);

// Whether a server may send its clients from one host to another: to public ones always, to others
// only if it is of the same kind itself, and from this machine also to private ones. A host without
// addresses counts as public.
bool MayLead(const std::vector<AddressKind>& from, const std::vector<AddressKind>& to);

}  // namespace moepack::registry
