package envoy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The messages of proto/envoy, which protoc describes when the tests begin.
var requestType, responseType protoreflect.MessageDescriptor

func TestMain(m *testing.M) {
	if err := describe(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func describe() error {
	folder, err := os.MkdirTemp("", "sluice-envoy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "envoy.binpb")
	protoc := exec.Command("protoc", "--proto_path="+filepath.Join("..", "..", "..", "..", "proto"), "--include_imports",
		"--descriptor_set_out="+path, "envoy/service/ratelimit/v3/rls.proto")
	if output, err := protoc.CombinedOutput(); err != nil {
		return fmt.Errorf("protoc: %w: %s", err, output)
	}
	bytes, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(bytes, &set); err != nil {
		return err
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return err
	}
	for name, to := range map[string]*protoreflect.MessageDescriptor{
		"RateLimitRequest": &requestType, "RateLimitResponse": &responseType} {
		found, err := files.FindDescriptorByName(protoreflect.FullName("envoy.service.ratelimit.v3." + name))
		if err != nil {
			return err
		}
		*to = found.(protoreflect.MessageDescriptor)
	}
	return nil
}

// request makes one of text as in `domain: "d" descriptors { ... }`.
func request(t *testing.T, text string) proto.Message {
	t.Helper()
	message := dynamicpb.NewMessage(requestType)
	if err := prototext.Unmarshal([]byte(text), message); err != nil {
		t.Fatal(err)
	}
	return message
}

// of asks for one descriptor of the domain `shop` with one entry, and `more` in that descriptor.
func of(t *testing.T, key, value string, more ...string) proto.Message {
	t.Helper()
	return request(t, fmt.Sprintf(`domain: "shop" descriptors { entries { key: %q value: %q } %s }`, key, value,
		strings.Join(more, " ")))
}

type descriptorStatus struct {
	code      string
	limit     int64 // of requests; -1: none
	unit      string
	name      string
	remaining uint64
	reset     int64 // seconds; 0: none
}

// told has what a response says: the code of all, and what it says of each descriptor.
func told(response *dynamicpb.Message) (string, []descriptorStatus) {
	field := func(message protoreflect.Message, name protoreflect.Name) protoreflect.Value {
		return message.Get(message.Descriptor().Fields().ByName(name))
	}
	enum := func(message protoreflect.Message, name protoreflect.Name) string {
		values := message.Descriptor().Fields().ByName(name).Enum().Values()
		return string(values.ByNumber(field(message, name).Enum()).Name())
	}
	var all []descriptorStatus
	list := field(response, "statuses").List()
	for i := 0; i < list.Len(); i++ {
		status := list.Get(i).Message()
		one := descriptorStatus{code: enum(status, "code"), limit: -1, remaining: field(status, "limit_remaining").Uint(),
			reset: field(field(status, "duration_until_reset").Message(), "seconds").Int()}
		if status.Has(status.Descriptor().Fields().ByName("current_limit")) {
			limit := field(status, "current_limit").Message()
			one.limit = int64(field(limit, "requests_per_unit").Uint())
			one.unit = enum(limit, "unit")
			one.name = field(limit, "name").String()
		}
		all = append(all, one)
	}
	return enum(response, "overall_code"), all
}
