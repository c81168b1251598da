// The conversation of a chat request: messages and what else reaches the template.
#ifndef ASHLAR_SERVE_CHAT_MESSAGES_H_
#define ASHLAR_SERVE_CHAT_MESSAGES_H_

#include "serve/openai_request.h"
#include "serve/request_fields.h"

namespace ashlar {

// Reads messages, chat_template_kwargs and add_generation_prompt. Contents given as text parts are
// joined with a line feed, as templates that take text expect it.
ApiStatus read_messages(RequestFields& fields, ApiRequest& request);

}  // namespace ashlar

#endif  // ASHLAR_SERVE_CHAT_MESSAGES_H_
