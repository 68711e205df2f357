module sluice.test/http

go 1.19
