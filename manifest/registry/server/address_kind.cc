#include "manifest/registry/server/address_kind.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

namespace moepack::registry {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* first) const { freeaddrinfo(first); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses LookUp(const std::string& host, int flags) {
  addrinfo hints = {}, *first = nullptr;
  hints.ai_flags = flags;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return nullptr;
  return Addresses(first);
}

struct Network {
  uint32_t address;
  int bits;
  AddressKind kind;
};

AddressKind KindOfIpv4(uint32_t address) {
  // Linux takes 0.0.0.0/8 to this host. 100.64.0.0/10 is for carriers' NAT, 224.0.0.0/3 is
  // multicast and reserved; no public server has such an address.
  constexpr Network kNetworks[] = {
      {0x7f000000, 8, AddressKind::kLoopback},   {0x00000000, 8, AddressKind::kLoopback},
      {0xa9fe0000, 16, AddressKind::kLinkLocal}, {0x0a000000, 8, AddressKind::kPrivate},
      {0xac100000, 12, AddressKind::kPrivate},   {0xc0a80000, 16, AddressKind::kPrivate},
      {0x64400000, 10, AddressKind::kPrivate},   {0xe0000000, 3, AddressKind::kPrivate}};
  for (const Network& network : kNetworks) {
    if ((address ^ network.address) >> (32 - network.bits) == 0) return network.kind;
  }
  return AddressKind::kPublic;
}

uint32_t BigEndian(const uint8_t* bytes) {
  uint32_t number = 0;
  for (int i = 0; i < 4; ++i) number = number << 8 | bytes[i];
  return number;
}

AddressKind KindOfIpv6(const uint8_t* bytes) {
  const auto zero = [&](size_t from, size_t to) {
    return std::all_of(bytes + from, bytes + to, [](uint8_t byte) { return byte == 0; });
  };
  if (zero(0, 15) && bytes[15] <= 1) return AddressKind::kLoopback;
  const bool mapped = zero(0, 10) && bytes[10] == 0xff && bytes[11] == 0xff;
  const bool translated = BigEndian(bytes) == 0x0064ff9b && zero(4, 12);  // RFC 6052
  // An IPv4 address inside an IPv6 one reaches the same host, so the same rules apply to it.
  if (mapped || translated || zero(0, 12)) return KindOfIpv4(BigEndian(bytes + 12));
  if (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80) return AddressKind::kLinkLocal;
  if ((bytes[0] & 0xfe) == 0xfc || bytes[0] == 0xff) return AddressKind::kPrivate;
  return AddressKind::kPublic;
}

std::optional<AddressKind> KindOf(const addrinfo& address) {
  if (address.ai_family == AF_INET) {
    sockaddr_in ipv4;
    std::memcpy(&ipv4, address.ai_addr, sizeof(ipv4));
    return KindOfIpv4(ntohl(ipv4.sin_addr.s_addr));
  }
  if (address.ai_family != AF_INET6) return std::nullopt;
  sockaddr_in6 ipv6;
  std::memcpy(&ipv6, address.ai_addr, sizeof(ipv6));
  return KindOfIpv6(ipv6.sin6_addr.s6_addr);
}

std::optional<AddressKind> KindOfNumber(const std::string& text) {
  const Addresses found = LookUp(text, AI_NUMERICHOST);
  return found ? KindOf(*found) : std::nullopt;
}

bool Has(const std::vector<AddressKind>& kinds, AddressKind kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

}  // namespace

std::vector<std::string> ResolveBySystem(const std::string& host) {
  std::vector<std::string> numbers;
  const Addresses found = LookUp(host, 0);
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) ==
        0)
      numbers.emplace_back(text);
  }
  return numbers;
}

std::vector<AddressKind> KindsOfHost(const std::string& host, const Resolve& resolve) {
  std::string name = host;
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  if (name.ends_with('.')) name.pop_back();
  if (name == "localhost" || name.ends_with(".localhost")) return {AddressKind::kLoopback};
  if (const auto kind = KindOfNumber(name)) return {*kind};
  std::vector<AddressKind> kinds;
  for (const std::string& number : resolve(name)) {
    const auto kind = KindOfNumber(number);
    if (kind && !Has(kinds, *kind)) kinds.push_back(*kind);
  }
  return kinds;
}

bool MayLead(const std::vector<AddressKind>& from, const std::vector<AddressKind>& to) {
  const bool is_public = from.empty() || Has(from, AddressKind::kPublic);
  return std::all_of(to.begin(), to.end(), [&](AddressKind kind) {
    if (kind == AddressKind::kPublic) return true;
    if (is_public) return false;
    return Has(from, kind) || (kind == AddressKind::kPrivate && Has(from, AddressKind::kLoopback));
  });
}

}  // namespace moepack::registry
