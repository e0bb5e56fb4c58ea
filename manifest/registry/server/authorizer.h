#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"

namespace moepack::registry {

// Authenticates us to a registry: the value of Authorization for each request.
class Authorizer {
 public:
  virtual ~Authorizer() = default;
  // The value of the header for requests that need these scopes ("repository:a/b:pull,push"), ""
  // for none yet. A token that is about to expire is renewed first. Safe to use from several
  // threads.
  virtual Result<std::string> HeaderFor(const std::vector<std::string>& scopes) = 0;
  // Called after status 401 (or 403 with a challenge): takes note of the challenge and returns
  // whether another try makes sense (false: the same credentials were just refused). `used` is the
  // refused value.
  virtual Result<bool> Refused(const remote::HttpReply& reply,
                               const std::vector<std::string>& scopes, const std::string& used) = 0;
  // What messages say about the credentials: `credentials from ~/.docker/config.json (user u)`, or
  // "no credentials".
  virtual std::string Shown() const = 0;
};
using AuthorizerPtr = std::shared_ptr<Authorizer>;

}  // namespace moepack::registry
