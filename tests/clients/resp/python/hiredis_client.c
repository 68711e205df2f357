/* A client with hiredis: sends commands to the sluice at port argv[1] of 127.0.0.1, and prints each
 * reply on a line, which hiredis_test.py reads. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

static void print(const redisReply* reply) {
  size_t i;
  switch (reply->type) {
    case REDIS_REPLY_INTEGER:
      printf("%lld", reply->integer);
      break;
    case REDIS_REPLY_NIL:
      printf("nil");
      break;
    case REDIS_REPLY_STATUS:
      printf("status:%s", reply->str);
      break;
    case REDIS_REPLY_ERROR:
      printf("error:%s", reply->str);
      break;
    case REDIS_REPLY_STRING:
      printf("text:%s", reply->str);
      break;
    default:
      printf("[");
      for (i = 0; i < reply->elements; ++i) {
        if (i > 0) printf(",");
        print(reply->element[i]);
      }
      printf("]");
  }
}

static void take(redisContext* context, void* reply) {
  if (reply == NULL) {
    fprintf(stderr, "no reply: %s\n", context->errstr);
    exit(1);
  }
  print((const redisReply*)reply);
  printf("\n");
  freeReplyObject(reply);
}

int main(int count, char** words) {
  const struct timeval patience = {30, 0};
  const char* binary[] = {"CL.THROTTLE", "\xff\0\r\n", "0", "1", "60"};
  const size_t lengths[] = {11, 4, 1, 1, 2};
  redisContext* context;
  void* reply;
  int i;
  if (count != 2) return 2;
  context = redisConnectWithTimeout("127.0.0.1", atoi(words[1]), patience);
  if (context == NULL || context->err != 0) return 1;
  redisSetTimeout(context, patience);

  take(context, redisCommand(context, "PING"));
  take(context, redisCommand(context, "CL.THROTTLE %s %d %d %d", "user 17", 0, 1, 60));
  take(context, redisCommand(context, "CL.THROTTLE %s %d %d %d", "user 17", 0, 1, 60));
  take(context, redisCommandArgv(context, 5, binary, lengths));
  take(context, redisCommandArgv(context, 5, binary, lengths));
  take(context, redisCommand(context, "CLIENT GETNAME"));
  take(context, redisCommand(context, "NOSUCH"));
  take(context, redisCommand(context, "ECHO %b", "", (size_t)0));

  for (i = 0; i < 100; ++i) redisAppendCommand(context, "THROTTLE piped 60 1 6000");
  redisAppendCommand(context, "MULTI");
  redisAppendCommand(context, "GCRA multi 0 1 60");
  redisAppendCommand(context, "GCRA multi 0 1 60");
  redisAppendCommand(context, "EXEC");
  for (i = 0; i < 104; ++i) {
    if (redisGetReply(context, &reply) != REDIS_OK) reply = NULL;
    take(context, reply);
  }
  redisFree(context);
  return 0;
}
