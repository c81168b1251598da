// HttpClient: a client on a plain socket, for tests of the server: it can send half a request, read
// slowly, vanish. It understands only what the server sends. Calls block up to a deadline; what
// fails shows in the result, nothing throws.
#ifndef ASHLAR_TESTING_HTTP_CLIENT_H_
#define ASHLAR_TESTING_HTTP_CLIENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar {

// The bytes of a request. headers: further lines, each with its line end.
std::string http_request(std::string_view method, std::string_view path, std::string_view body = {},
                         std::string_view headers = {});

struct HttpResponse {
  int status = 0;                              // 0: no head came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool complete = false;  // the body came to its end
};

class HttpClient {
 public:
  explicit HttpClient(int64_t port, double timeout_seconds = 120);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool connected() const { return fd_ >= 0; }
  // False when the server closed. A receive buffer can only be made small before the connection.
  bool send(std::string_view bytes);
  HttpResponse receive();
  HttpResponse call(std::string_view method, std::string_view path, std::string_view body = {}) {
    send(http_request(method, path, body));
    return receive();
  }
  HttpResponse post(std::string_view path, std::string_view body) {
    return call("POST", path, body);
  }

  // A response piece by piece: the head, then the data of one event after the other; nothing at the
  // end of the body or at the deadline.
  HttpResponse receive_head();
  std::optional<std::string> receive_event();
  bool body_ended() const { return body_ended_; }

  bool closed_by_server();  // waits for it
  void vanish();            // closes with a reset, as a killed client does
  void close();
  void half_close();  // sends no more, still receives

 private:
  bool fill();  // reads some more into buffer_
  bool receive_line(std::string& line);
  bool receive_piece(std::string& body);  // of the body, decoded

  int fd_ = -1;
  double timeout_seconds_;
  std::string buffer_;
  bool chunked_ = false, until_close_ = false, body_ended_ = true;
  int64_t body_left_ = 0;
  std::string events_;  // decoded, not yet handed out
};

}  // namespace ashlar

#endif  // ASHLAR_TESTING_HTTP_CLIENT_H_
