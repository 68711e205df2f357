// go-redis 9, unchanged, against the real server: its defaults, both versions of the protocol, and the ways to send
// many commands that it has.
package resp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Tests use no smaller time than this one, in seconds, and no other number as large.
const timesFrom = 50

func connect(t *testing.T, options *redis.Options) *redis.Client {
	t.Helper()
	client := redis.NewClient(options)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

func throttle(key string, numbers ...int) []interface{} {
	words := []interface{}{"CL.THROTTLE", key}
	for _, number := range numbers {
		words = append(words, number)
	}
	return words
}

// check compares a list of integers: exactly, but for times above 0, which may have gone down while the test went on.
func check(t *testing.T, got []int64, err error, expected ...int64) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	fits := len(got) == len(expected)
	for i := 0; fits && i < len(got); i++ {
		if expected[i] >= timesFrom {
			fits = got[i] <= expected[i] && got[i] > expected[i]-timesFrom
		} else {
			fits = got[i] == expected[i]
		}
	}
	if !fits {
		t.Fatalf("%v in place of %v", got, expected)
	}
}

func checkCommand(t *testing.T, command *redis.Cmd, expected ...int64) {
	t.Helper()
	got, err := command.Int64Slice()
	check(t, got, err, expected...)
}

func checkError(t *testing.T, err error, expected string) {
	t.Helper()
	var reply redis.Error
	if !errors.As(err, &reply) || !strings.Contains(reply.Error(), expected) {
		t.Fatalf("%v in place of the error %q", err, expected)
	}
}

// eachProtocol runs a test by RESP2 and by RESP3, with a server of its own for each.
func eachProtocol(t *testing.T, test func(*testing.T, context.Context, redis.Options)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			address, ctx := start(t)
			test(t, ctx, redis.Options{Addr: address, Protocol: protocol, MaxRetries: -1})
		})
	}
}

func TestDefaults(t *testing.T) {
	address, ctx := start(t)
	client := connect(t, &redis.Options{Addr: address})
	if pong, err := client.Ping(ctx).Result(); err != nil || pong != "PONG" {
		t.Fatal(pong, err)
	}
	info, err := client.ClientInfo(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	if info.Resp != 3 || !strings.HasPrefix(info.LibName, "go-redis") || info.LibVer == "" {
		t.Fatalf("of itself it receives %+v", info)
	}
	checkCommand(t, client.Do(ctx, throttle("k", 0, 1, 60)...), 0, 1, 0, -1, 60)
}

func TestEveryThrottle(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, options redis.Options) {
		client := connect(t, &options)
		checkCommand(t, client.Do(ctx, throttle("k", 1, 1, 60)...), 0, 2, 1, -1, 60)
		checkCommand(t, client.Do(ctx, throttle("k", 1, 1, 60)...), 0, 2, 0, -1, 120)
		checkCommand(t, client.Do(ctx, throttle("k", 1, 1, 60)...), 1, 2, 0, 60, 120)
		checkCommand(t, client.Do(ctx, "throttle", "k", 2, 1, 60, 2), 1, 2, 0, 120, 0)
		checkCommand(t, client.Do(ctx, "throttle", "k", 2, 1, 60), 0, 2, 0, 120, 60)
		checkCommand(t, client.Do(ctx, "GCRA", "k", 1, 1, 60.5, "TOKENS", 2), 0, 2, 0, -1, 121)
		checkCommand(t, client.Do(ctx, "GCRA", "k", 1, 1, 60.5), 1, 2, 0, 61, 121)
		checkCommand(t, client.Do(ctx, "CL.THROTTLE", []byte("\xff\x00\r\n"), 0, 1, 60), 0, 1, 0, -1, 60)
		checkCommand(t, client.Do(ctx, "CL.THROTTLE", []byte("\xff\x00\r\n"), 0, 1, 60), 1, 1, 0, 60, 60)
	})
}

func TestErrorsLeaveTheConnection(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, options redis.Options) {
		options.PoolSize = 1
		client := connect(t, &options)
		id, err := client.ClientID(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		checkError(t, client.Do(ctx, "CL.THROTTLE", "k", "x", 1, 60).Err(), "Couldn't parse as integer: x")
		checkError(t, client.Do(ctx, "NOSUCH", "a").Err(), "ERR unknown command 'NOSUCH', with args beginning with: 'a' ")
		checkError(t, client.Get(ctx, "k").Err(), "ERR unknown command 'get'")
		// Newer versions of this client try it on each connection, and go on after an error.
		checkError(t, client.Do(ctx, "CLIENT", "MAINT_NOTIFICATIONS", "ON").Err(), "ERR unknown subcommand 'MAINT_NOTIFICATIONS'")
		if _, err := client.Do(ctx, "CLIENT", "GETNAME").Result(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		if after, err := client.ClientID(ctx).Result(); err != nil || after != id {
			t.Fatalf("another connection: %d, %d, %v", id, after, err)
		}
	})
}

func TestPipeline(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, options redis.Options) {
		client := connect(t, &options)
		var replies []*redis.Cmd
		var pong *redis.StatusCmd
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := 0; i < 100; i++ {
				replies = append(replies, pipe.Do(ctx, throttle("k", 59, 1, 6000)...))
			}
			pong = pipe.Ping(ctx)
			return nil
		})
		if err != nil || pong.Val() != "PONG" {
			t.Fatal(err, pong)
		}
		for i, reply := range replies {
			got, err := reply.Int64Slice()
			if err != nil || len(got) != 5 || (got[0] == 0) != (i < 60) || (i < 60 && got[2] != int64(59-i)) {
				t.Fatalf("reply %d is %v, %v", i, got, err)
			}
		}
	})
}

func TestPipelineWithErrors(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, options redis.Options) {
		client := connect(t, &options)
		pipe := client.Pipeline()
		first := pipe.Do(ctx, throttle("k", 0, 1, 60)...)
		wrong := pipe.Do(ctx, throttle("k", 0, 0, 60)...)
		denied := pipe.Do(ctx, throttle("k", 0, 1, 60)...)
		if _, err := pipe.Exec(ctx); err == nil {
			t.Fatal("no error")
		}
		checkCommand(t, first, 0, 1, 0, -1, 60)
		checkError(t, wrong.Err(), "Zero rates are not supported")
		checkCommand(t, denied, 1, 1, 0, 60, 60)
	})
}

func TestTransaction(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, options redis.Options) {
		client := connect(t, &options)
		var first, denied, other *redis.Cmd
		_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			first = pipe.Do(ctx, throttle("k", 0, 1, 60)...)
			denied = pipe.Do(ctx, throttle("k", 0, 1, 60)...)
			other = pipe.Do(ctx, throttle("l", 0, 1, 60)...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		checkCommand(t, first, 0, 1, 0, -1, 60)
		checkCommand(t, denied, 1, 1, 0, 60, 60)
		checkCommand(t, other, 0, 1, 0, -1, 60) // what was denied has undone nothing

		_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Do(ctx, throttle("m", 0, 1, 60)...)
			pipe.Do(ctx, "NOSUCH")
			return nil
		})
		if err == nil {
			t.Fatal("no error")
		}
		checkCommand(t, client.Do(ctx, throttle("m", 0, 1, 60, 0)...), 0, 1, 1, -1, 0)
	})
}

func TestWatch(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, options redis.Options) {
		client := connect(t, &options)
		err := client.Watch(ctx, func(tx *redis.Tx) error {
			checkCommand(t, tx.Do(ctx, throttle("k", 1, 1, 60)...), 0, 2, 1, -1, 60)
			replies, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Do(ctx, throttle("k", 1, 1, 60)...)
				return nil
			})
			if err == nil {
				checkCommand(t, replies[0].(*redis.Cmd), 0, 2, 0, -1, 120)
			}
			return err
		}, "k")
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestPoolSharesACounter(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, options redis.Options) {
		options.PoolSize = 8
		client := connect(t, &options)
		var wait sync.WaitGroup
		var lock sync.Mutex
		remaining := map[int64]int{}
		denied, failed := 0, 0
		for i := 0; i < 8; i++ {
			wait.Add(1)
			go func() {
				defer wait.Done()
				for i := 0; i < 10; i++ {
					got, err := client.Do(ctx, throttle("k", 29, 1, 60)...).Int64Slice()
					lock.Lock()
					switch {
					case err != nil:
						failed++
					case got[0] == 1:
						denied++
					default:
						remaining[got[2]]++
					}
					lock.Unlock()
				}
			}()
		}
		wait.Wait()
		if failed != 0 || denied != 50 || len(remaining) != 30 {
			t.Fatalf("%d failed, %d denied, %d different replies", failed, denied, len(remaining))
		}
		for i := int64(0); i < 30; i++ {
			if remaining[i] != 1 {
				t.Fatalf("%d times %d remaining", remaining[i], i)
			}
		}
	})
}

func TestNamesAndDatabases(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, options redis.Options) {
		named := options
		named.ClientName, named.DB, named.PoolSize = "shop", 3, 1
		client := connect(t, &named)
		info, err := client.ClientInfo(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		if info.Name != "shop" || info.DB != 3 || info.Resp != options.Protocol {
			t.Fatalf("of itself it receives %+v", info)
		}
		checkCommand(t, client.Do(ctx, throttle("k", 0, 1, 60)...), 0, 1, 0, -1, 60)
		// The number of the database is part of the counter's name.
		checkCommand(t, connect(t, &options).Do(ctx, throttle("k", 0, 1, 60)...), 0, 1, 0, -1, 60)
		checkCommand(t, connect(t, &named).Do(ctx, throttle("k", 0, 1, 60)...), 1, 1, 0, 60, 60)
	})
}

func TestAUserWithAnyPassword(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, options redis.Options) {
		options.Username, options.Password = "default", "any"
		checkCommand(t, connect(t, &options).Do(ctx, throttle("k", 0, 1, 60)...), 0, 1, 0, -1, 60)
		options.Username = "other"
		checkError(t, connect(t, &options).Ping(ctx).Err(), "WRONGPASS")
	})
}

func TestWhatTheClientReadsOfTheServer(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, options redis.Options) {
		client := connect(t, &options)
		commands, err := client.Command(ctx).Result()
		if err != nil {
			t.Fatal(err)
		}
		if command := commands["cl.throttle"]; command == nil || command.FirstKeyPos != 1 {
			t.Fatalf("of cl.throttle it receives %+v", command)
		}
		info, err := client.InfoMap(ctx, "persistence").Result()
		if err != nil || info["Persistence"]["loading"] != "0" {
			t.Fatal(info, err)
		}
		if found, err := client.ConfigGet(ctx, "save").Result(); err != nil || len(found) != 0 {
			t.Fatal(found, err)
		}
		if now, err := client.Time(ctx).Result(); err != nil || now.Unix() < 1_700_000_000 {
			t.Fatal(now, err)
		}
		if said, err := client.Echo(ctx, "marker").Result(); err != nil || said != "marker" {
			t.Fatal(said, err)
		}
	})
}

func TestKeysThatWereThrottled(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, options redis.Options) {
		client := connect(t, &options)
		if left, err := client.TTL(ctx, "k").Result(); err != nil || left != -2 {
			t.Fatal(left, err)
		}
		checkCommand(t, client.Do(ctx, throttle("k", 0, 1, 60)...), 0, 1, 0, -1, 60)
		if there, err := client.Exists(ctx, "k").Result(); err != nil || there != 1 {
			t.Fatal(there, err)
		}
		if left, err := client.TTL(ctx, "k").Result(); err != nil || left.Seconds() < 1 || left.Seconds() > 60 {
			t.Fatal(left, err)
		}
		if gone, err := client.Del(ctx, "k", "other").Result(); err != nil || gone != 1 {
			t.Fatal(gone, err)
		}
		checkCommand(t, client.Do(ctx, throttle("k", 0, 1, 60)...), 0, 1, 0, -1, 60)
	})
}
