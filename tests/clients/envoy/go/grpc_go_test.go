// Go's gRPC, unchanged, against the real server.
package envoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"reflect"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	_ "google.golang.org/grpc/health" // health checks of the client
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

const shouldRateLimit = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// connect makes a channel of one connection.
func connect(t *testing.T, s *server, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	channel, err := grpc.NewClient(s.address,
		append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = channel.Close() })
	return channel
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func ask(ctx context.Context, channel *grpc.ClientConn, message proto.Message,
	options ...grpc.CallOption) (string, []descriptorStatus, error) {
	response := dynamicpb.NewMessage(responseType)
	if err := channel.Invoke(ctx, shouldRateLimit, message, response, options...); err != nil {
		return "", nil, err
	}
	code, statuses := told(response)
	return code, statuses, nil
}

func mustAsk(t *testing.T, channel *grpc.ClientConn, message proto.Message,
	options ...grpc.CallOption) (string, []descriptorStatus) {
	t.Helper()
	code, statuses, err := ask(patient(t), channel, message, options...)
	if err != nil {
		t.Fatal(err)
	}
	return code, statuses
}

func expect(t *testing.T, got, expected interface{}) {
	t.Helper()
	if !reflect.DeepEqual(got, expected) {
		t.Fatalf("%v in place of %v", got, expected)
	}
}

func TestUpToTheLimit(t *testing.T) {
	channel := connect(t, start(t))
	for i, remaining := range []uint64{4, 3, 2, 1, 0, 0, 0} {
		code, statuses := mustAsk(t, channel, of(t, "user", "a"))
		expected := "OK"
		if i >= 5 {
			expected = "OVER_LIMIT"
		}
		expect(t, code, expected)
		if reset := statuses[0].reset; reset < 1 || reset > 365*86_400 {
			t.Fatalf("%d seconds until the reset", reset)
		}
		statuses[0].reset = 0
		expect(t, statuses, []descriptorStatus{{expected, 5, "YEAR", "of_user", remaining, 0}})
	}
}

func TestSeveralDescriptors(t *testing.T) {
	channel := connect(t, start(t))
	message := request(t, `domain: "shop"
		descriptors { entries { key: "tenant" value: "t" } entries { key: "path" value: "/cart" } }
		descriptors { entries { key: "tenant" value: "t" } }
		descriptors { entries { key: "trusted" value: "x" } }
		descriptors { entries { key: "none" value: "x" } }`)
	for i, expected := range []string{"OK", "OK", "OVER_LIMIT"} {
		code, statuses := mustAsk(t, channel, message)
		expect(t, code, expected)
		expect(t, statuses[0].code, expected)
		// The others are charged though one is over.
		expect(t, statuses[1].remaining, uint64(599-i))
		expect(t, statuses[2], descriptorStatus{"OK", -1, "", "", 1<<32 - 1, 0})
		expect(t, statuses[3], descriptorStatus{"OK", -1, "", "", 0, 0})
	}
}

func TestHits(t *testing.T) {
	channel := connect(t, start(t))
	remaining := func(message proto.Message) uint64 {
		_, statuses := mustAsk(t, channel, message)
		return statuses[0].remaining
	}
	expect(t, remaining(request(t, `domain: "shop" hits_addend: 3
		descriptors { entries { key: "user" value: "a" } }`)), uint64(2))
	expect(t, remaining(of(t, "user", "a", "hits_addend { }")), uint64(2))
	expect(t, remaining(of(t, "user", "a", "hits_addend { value: 1 }")), uint64(1))
	expect(t, remaining(of(t, "user", "a", "hits_addend { value: 2 } is_negative_hits: true")), uint64(3))
	code, _ := mustAsk(t, channel, of(t, "user", "a", "hits_addend { value: 4 }"))
	expect(t, code, "OVER_LIMIT")
}

// answers notes how the server has compressed what it sends.
type answers struct {
	mutex        sync.Mutex
	compressions []string
}

func (a *answers) HandleRPC(_ context.Context, event stats.RPCStats) {
	if header, ok := event.(*stats.InHeader); ok {
		a.mutex.Lock()
		a.compressions = append(a.compressions, header.Compression)
		a.mutex.Unlock()
	}
}
func (a *answers) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (a *answers) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (a *answers) HandleConn(context.Context, stats.ConnStats)                       {}

func TestGzip(t *testing.T) {
	seen := &answers{}
	channel := connect(t, start(t), grpc.WithStatsHandler(seen))
	_, statuses := mustAsk(t, channel, of(t, "user", "a"), grpc.UseCompressor(gzip.Name))
	expect(t, statuses[0].remaining, uint64(4))
	_, statuses = mustAsk(t, channel, of(t, "user", "a"))
	expect(t, statuses[0].remaining, uint64(3))
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	expect(t, seen.compressions, []string{"gzip", ""})
}

func TestMuchCompressed(t *testing.T) {
	channel := connect(t, start(t))
	dice := rand.New(rand.NewSource(1))
	text, small := `domain: "shop"`, `domain: "shop"`
	for i := 0; i < 1000; i++ {
		digits := make([]byte, 250)
		dice.Read(digits)
		text += fmt.Sprintf(` descriptors { entries { key: "much" value: "%x-%d" } }`, digits, i)
		small += fmt.Sprintf(` descriptors { entries { key: "much" value: "%s-%d" } }`, strings.Repeat("v", 500), i)
	}
	_, statuses := mustAsk(t, channel, request(t, text), grpc.UseCompressor(gzip.Name))
	expect(t, len(statuses), 1000)
	expect(t, statuses[999].remaining, uint64(999_999))
	// What becomes more than 32 times as long is refused.
	_, _, err := ask(patient(t), channel, request(t, small), grpc.UseCompressor(gzip.Name))
	expect(t, status.Code(err), codes.ResourceExhausted)
}

func TestDeadline(t *testing.T) {
	s := start(t)
	channel := connect(t, s)
	mustAsk(t, channel, of(t, "user", "a"))
	s.held(t, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		_, _, err := ask(ctx, channel, of(t, "user", "a"))
		expect(t, status.Code(err), codes.DeadlineExceeded)
	})
	// The connection goes on, and what no client waits for any more is charged once at most.
	_, statuses := mustAsk(t, channel, of(t, "user", "a"))
	if left := statuses[0].remaining; left != 2 && left != 3 {
		t.Fatalf("%d are left", left)
	}
}

func TestAThousandStreamsOnOneConnection(t *testing.T) {
	s := start(t)
	channel := connect(t, s)
	mustAsk(t, channel, of(t, "tenant", "warm")) // so that the client knows how many there may be
	const calls = 1000
	type answer struct {
		code      string
		remaining uint64
		err       error
	}
	answered := make(chan answer, calls)
	var begun sync.WaitGroup
	ctx := patient(t)
	s.held(t, func() {
		begun.Add(calls)
		for i := 0; i < calls; i++ {
			go func() {
				// A stream and what it sends, apart from the waiting for its answer.
				stream, err := channel.NewStream(ctx, &grpc.StreamDesc{}, shouldRateLimit)
				if err == nil {
					err = stream.SendMsg(of(t, "tenant", "t"))
				}
				if err == nil {
					err = stream.CloseSend()
				}
				begun.Done()
				response := dynamicpb.NewMessage(responseType)
				if err == nil {
					err = stream.RecvMsg(response)
				}
				if err != nil {
					answered <- answer{err: err}
					return
				}
				code, statuses := told(response)
				answered <- answer{code, statuses[0].remaining, nil}
			}()
		}
		begun.Wait()
		expect(t, len(answered), 0)
	})
	allowed := 0
	var left []int
	for i := 0; i < calls; i++ {
		one := <-answered
		if one.err != nil {
			t.Fatal(one.err)
		}
		if one.code == "OK" {
			allowed++
			left = append(left, int(one.remaining))
		}
	}
	expect(t, allowed, 600)
	sort.Ints(left)
	for i, remaining := range left {
		expect(t, remaining, i)
	}
}

func TestHealth(t *testing.T) {
	s := start(t)
	channel := connect(t, s)
	client := health.NewHealthClient(channel)
	for _, service := range []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"} {
		response, err := client.Check(patient(t), &health.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, response.GetStatus(), health.HealthCheckResponse_SERVING)
	}
	_, err := client.Check(patient(t), &health.HealthCheckRequest{Service: "other"})
	expect(t, status.Code(err), codes.NotFound)
	expect(t, status.Convert(err).Message(), "unknown service")

	watch, err := client.Watch(patient(t), &health.HealthCheckRequest{Service: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := watch.Recv()
	if err != nil {
		t.Fatal(err)
	}
	expect(t, first.GetStatus(), health.HealthCheckResponse_SERVING)
	mustAsk(t, channel, of(t, "user", "a")) // others are served meanwhile
	s.stop(t)
	last, err := watch.Recv()
	if err == nil {
		expect(t, last.GetStatus(), health.HealthCheckResponse_NOT_SERVING)
		_, err = watch.Recv()
	}
	if err == nil || status.Code(err) == codes.DeadlineExceeded {
		t.Fatalf("Watch goes on when the server has ended: %v", err)
	}
}

// With a health check of its own Go's channel takes a server only while Watch says that it serves.
func TestHealthChecksOfTheChannel(t *testing.T) {
	s := start(t)
	checking := func(service string) *grpc.ClientConn {
		return connect(t, s, grpc.WithDefaultServiceConfig(fmt.Sprintf(
			`{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": %q}}`, service)))
	}
	code, _ := mustAsk(t, checking("ratelimit"), of(t, "user", "a"))
	expect(t, code, "OK")
	_, _, err := ask(patient(t), checking("other"), of(t, "user", "a"))
	expect(t, status.Code(err), codes.Unavailable)
}

func TestUnknownMethod(t *testing.T) {
	channel := connect(t, start(t))
	for path, text := range map[string]string{
		"/envoy.service.ratelimit.v3.RateLimitService/Other": "unknown method Other for service " +
			"envoy.service.ratelimit.v3.RateLimitService",
		"/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit": "unknown service " +
			"envoy.service.ratelimit.v2.RateLimitService",
	} {
		err := channel.Invoke(patient(t), path, of(t, "user", "a"), dynamicpb.NewMessage(responseType))
		expect(t, status.Code(err), codes.Unimplemented)
		expect(t, status.Convert(err).Message(), text)
	}
}

// Each call has an answer, or is refused as one that may be sent to another server.
func TestTheEndOfTheServerUnderTraffic(t *testing.T) {
	s := start(t)
	var answered int64
	refusals := make(chan error, 8)
	for i := 0; i < cap(refusals); i++ {
		channel := connect(t, s)
		message, ctx := of(t, "much", "a"), patient(t)
		go func() {
			for {
				if _, _, err := ask(ctx, channel, message); err != nil {
					refusals <- err
					return
				}
				atomic.AddInt64(&answered, 1)
			}
		}()
	}
	for end := time.Now().Add(patience); atomic.LoadInt64(&answered) < 200; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no traffic")
		}
	}
	s.stop(t)
	for i := 0; i < cap(refusals); i++ {
		if err := <-refusals; status.Code(err) != codes.Unavailable || errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
}
